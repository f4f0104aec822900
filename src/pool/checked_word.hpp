// Words on media that check themselves, and the seeds that bind checksums to a pool and a place.
//
// Threads: a value; all functions are pure. Cost: one CRC instruction.
#pragma once

#include <cstdint>

#include "base/checksum.hpp"
#include "pool/format.hpp"

namespace icecore {

/// Makes and reads checked words (stamps, fills): a 48-bit number with a 15-bit check that depends on its place.
class word_codec {
 public:
  explicit word_codec(std::uint32_t pool_seed) noexcept : pool_seed_(pool_seed) {}

  [[nodiscard]] std::uint64_t encode(std::uint64_t number, std::uint64_t offset) const noexcept {
    const std::uint64_t check = crc32c(pool_seed_ ^ static_cast<std::uint32_t>(offset >> 3), number) & 0x7fff;
    return number | (check << 48);
  }
  /// Whether `word`, read at `offset`, is one that encode() made (the persisted bit is not looked at).
  [[nodiscard]] bool valid(std::uint64_t word, std::uint64_t offset) const noexcept {
    return (word & ~format::stamp_persisted) == encode(word & format::stamp_version_mask, offset);
  }

  /// The seed of the checksum of a record at `offset` in a segment of this generation (R1).
  [[nodiscard]] std::uint32_t record_seed(std::uint32_t generation, std::uint64_t offset) const noexcept {
    return crc32c(pool_seed_ ^ generation, offset);
  }
  [[nodiscard]] std::uint32_t pool_seed() const noexcept { return pool_seed_; }

 private:
  std::uint32_t pool_seed_;
};

}  // namespace icecore
