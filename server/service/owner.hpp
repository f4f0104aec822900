// Which server of a group owns a key. Servers and clients of all kinds compute it alike; it never changes.
//
//   owner_of("k-mer/ACGT", 4)        // 0 to 3
//
// The hash is the upper half of XXH64 with seed 0; the owner is (hash * servers) / 2^32.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <string_view>

namespace icecore::service {

[[nodiscard]] inline std::uint32_t owner_of(std::string_view key, std::uint32_t servers) noexcept {
  const std::uint64_t hash = XXH64(key.data(), key.size(), 0) >> 32;
  return static_cast<std::uint32_t>((hash * servers) >> 32);
}

}  // namespace icecore::service
