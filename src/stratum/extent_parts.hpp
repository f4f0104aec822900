// What the parts of an extent say of each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/checksum.hpp"
#include "stratum/extent_format.hpp"

namespace icecore::stratum {

/// What the checksum of the block at `place`, in bytes from the extent's start, begins with.
[[nodiscard]] inline std::uint32_t block_seed(std::uint32_t extent_seed, std::uint64_t place) noexcept {
  return crc32c(extent_seed, place);
}

/// What the block at `at` adds to extent_header::blocks_sum.
[[nodiscard]] inline std::uint64_t block_digest(const std::byte* at, std::uint64_t place) noexcept {
  std::uint32_t crc;
  std::memcpy(&crc, at + offsetof(format::block_header, crc), sizeof crc);
  return mix64((place << 32) ^ crc);
}

/// What the fence tells of the block at `at`, `place` bytes from the extent's start.
[[nodiscard]] inline format::block_place place_of(const std::byte* at, std::uint64_t place) noexcept {
  format::block_header h;
  std::memcpy(&h, at, sizeof h);
  return {static_cast<std::uint32_t>(place / format::block_alignment), h.keys,
          static_cast<std::uint16_t>(std::min<std::uint64_t>(h.rows_at / format::block_alignment, UINT16_MAX))};
}

[[nodiscard]] inline std::uint32_t header_crc(format::extent_header header, std::uint32_t extent_seed) noexcept {
  header.crc = 0;
  return crc32c(extent_seed, &header, sizeof header);
}

}  // namespace icecore::stratum
