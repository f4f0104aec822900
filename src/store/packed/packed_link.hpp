// Links to packed records. They are made for each answer and never stored: on media only records of generations are
// linked.
//
//   const link l = packed_link(place);          // is_packed(l), which no link into a pool is
//   const stratum::record_place same = place_of(l);
//
// Bit 62 says that a link is a packed one: the numbers of files and of stand-ins are far below. Of an entry's head bit
// 63 means something else, so it stays 0. The rest is the place.
#pragma once

#include "base/raise.hpp"
#include "pool/link.hpp"
#include "stratum/extent_builder.hpp"
#include "stratum/strata.hpp"

namespace icecore::detail {

// A block of 4 KiB begins a row at most 4 KiB, and a key of 64 KiB, behind its start. It has at most some 1,300 keys:
// of 2 bytes, with a version and an empty value each. An extent of 64 MiB has blocks of 2 KiB on average, or larger
// ones.
inline constexpr unsigned packed_row_bits = 17;
inline constexpr unsigned packed_key_bits = 11;
inline constexpr unsigned packed_block_bits = 16;
inline constexpr unsigned packed_extent_bits = 18;
static_assert(stratum::block_bytes_usual + key_size_max + (std::uint64_t{1} << 14) <
              (std::uint64_t{1} << packed_row_bits));
static_assert(stratum::block_bytes_usual / 3 < (1U << packed_key_bits));
inline constexpr link packed_mark = link{1} << 62;
static_assert(packed_row_bits + packed_key_bits + packed_block_bits + packed_extent_bits == 62);

[[nodiscard]] constexpr bool is_packed(link l) noexcept { return (l & packed_mark) != 0; }

/// errc::damaged if the place cannot be one that a compaction makes.
[[nodiscard, gnu::always_inline]] inline link packed_link(const stratum::record_place& at) {
  const std::uint64_t beyond = (at.in.row >> packed_row_bits) | (at.in.key >> packed_key_bits) |
                               (at.in.block >> packed_block_bits) | (at.extent >> packed_extent_bits);
  if (beyond != 0) [[unlikely]]
    raise(errc::damaged, "packed records: block {} of extent {} has a record where none can be", at.in.block,
          at.extent);
  link l = at.extent;
  l = l << packed_block_bits | at.in.block;
  l = l << packed_key_bits | at.in.key;
  l = l << packed_row_bits | at.in.row;
  return l | packed_mark;
}

[[nodiscard, gnu::always_inline]] inline stratum::record_place place_of(link l) noexcept {
  constexpr auto low = [](link of, unsigned bits) { return static_cast<std::uint32_t>(of & ((link{1} << bits) - 1)); };
  const std::uint32_t row = low(l, packed_row_bits);
  l >>= packed_row_bits;
  const std::uint32_t key = low(l, packed_key_bits);
  l >>= packed_key_bits;
  const std::uint32_t block = low(l, packed_block_bits);
  l >>= packed_block_bits;
  return {low(l, packed_extent_bits), {block, key, row}};
}

}  // namespace icecore::detail
