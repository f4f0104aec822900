// Words on media that carry their own check, and the seeds that bind checksums to a pool and a place.
//
// Threads: a value; all functions are pure. Cost: one CRC instruction.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>

#include "base/checksum.hpp"
#include "pool/format.hpp"
#include "pool/link.hpp"

namespace icecore {

/// Encodes and decodes checked words (stamps, fills): a 48-bit number with a 15-bit check that depends on its place.
class word_codec {
 public:
  explicit word_codec(std::uint32_t pool_seed) noexcept : pool_seed_(pool_seed) {}

  [[nodiscard, gnu::always_inline]] std::uint64_t encode(std::uint64_t number, link at) const noexcept {
    assert(number <= format::stamp_version_mask);
    constexpr std::uint32_t odd = 0x9e3779b1U;  // gives the files of a store different checks
    const std::uint32_t place = static_cast<std::uint32_t>(at >> 3) ^ link_pool(at) * odd;
    const std::uint64_t check = crc32c(pool_seed_ ^ place, number) & 0x7fff;
    return number | (check << 48);
  }
  /// Whether encode() made `word` for this place. Ignores the persisted bit.
  [[nodiscard]] bool valid(std::uint64_t word, link at) const noexcept {
    return (word & ~format::stamp_persisted) == encode(word & format::stamp_version_mask, at);
  }

  /// A link as a checked word; 0 for the null link. A pool has fewer than 2^44 bytes, a store at most 16 pools.
  [[nodiscard]] std::uint64_t encode_link(link l, link at) const noexcept {
    assert(link_offset(l) >> short_offset_bits == 0);
    return l == null_link ? 0 : encode(std::uint64_t{link_pool(l)} << short_offset_bits | link_offset(l), at);
  }
  /// Empty if encode_link() did not make this word for this place.
  [[nodiscard]] std::optional<link> decode_link(std::uint64_t word, link at) const noexcept {
    if (word == 0) return null_link;
    if ((word & format::stamp_persisted) != 0 || !valid(word, at)) return std::nullopt;
    const std::uint64_t number = word & format::stamp_version_mask;
    constexpr std::uint64_t offset_mask = (std::uint64_t{1} << short_offset_bits) - 1;
    return make_link(static_cast<std::uint16_t>(number >> short_offset_bits), number & offset_mask);
  }

  /// The seed of the checksum of a record at this place, in a segment of this generation (R1).
  [[nodiscard, gnu::always_inline]] std::uint32_t record_seed(std::uint32_t generation, link at) const noexcept {
    return crc32c(pool_seed_ ^ generation, at);
  }
  /// The generation from which this seed follows at this place.
  [[nodiscard]] std::uint32_t record_generation(std::uint32_t seed, link at) const noexcept {
    return pool_seed_ ^ crc32c_before(seed, crc32c(0, at), sizeof at);
  }
  [[nodiscard]] std::uint32_t pool_seed() const noexcept { return pool_seed_; }

 private:
  static constexpr unsigned short_offset_bits = 44;

  std::uint32_t pool_seed_;
};

}  // namespace icecore
