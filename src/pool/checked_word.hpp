// Words on media that check themselves, and the seeds that bind checksums to a pool and a place.
//
// Threads: a value; all functions are pure. Cost: one CRC instruction.
#pragma once

#include <cstdint>

#include "base/checksum.hpp"
#include "pool/format.hpp"
#include "pool/link.hpp"

namespace icecore {

/// Makes and reads checked words (stamps, fills): a 48-bit number with a 15-bit check that depends on its place.
class word_codec {
 public:
  explicit word_codec(std::uint32_t pool_seed) noexcept : pool_seed_(pool_seed) {}

  [[nodiscard]] std::uint64_t encode(std::uint64_t number, link at) const noexcept {
    constexpr std::uint32_t odd = 0x9e3779b1U;  // tells the files of a store apart
    const std::uint32_t place = static_cast<std::uint32_t>(at >> 3) ^ link_pool(at) * odd;
    const std::uint64_t check = crc32c(pool_seed_ ^ place, number) & 0x7fff;
    return number | (check << 48);
  }
  /// Whether `word`, read at this place, is one that encode() made (the persisted bit is not looked at).
  [[nodiscard]] bool valid(std::uint64_t word, link at) const noexcept {
    return (word & ~format::stamp_persisted) == encode(word & format::stamp_version_mask, at);
  }

  /// The seed of the checksum of a record at this place in a segment of this generation (R1).
  [[nodiscard]] std::uint32_t record_seed(std::uint32_t generation, link at) const noexcept {
    return crc32c(pool_seed_ ^ generation, at);
  }
  [[nodiscard]] std::uint32_t pool_seed() const noexcept { return pool_seed_; }

 private:
  std::uint32_t pool_seed_;
};

}  // namespace icecore
