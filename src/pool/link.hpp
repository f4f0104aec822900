// A link is a position-independent pointer into a store's pools: one word, pool number and offset.
//
//   const std::byte* record = base.at(l);     // base[pool] + offset
//
// Invariants:
//   L1. Link 0 is null: offset 0 of a pool is its root page, to which nothing links. Zeroed media is all null links.
//   L2. A link's offset is a multiple of 8.
#pragma once

#include <cstdint>

namespace icecore {

using link = std::uint64_t;

inline constexpr link null_link = 0;
inline constexpr unsigned link_offset_bits = 48;
inline constexpr std::uint64_t link_offset_mask = (std::uint64_t{1} << link_offset_bits) - 1;

[[nodiscard]] constexpr link make_link(std::uint16_t pool, std::uint64_t offset) noexcept {
  return (std::uint64_t{pool} << link_offset_bits) | offset;
}
[[nodiscard]] constexpr std::uint16_t link_pool(link l) noexcept {
  return static_cast<std::uint16_t>(l >> link_offset_bits);
}
[[nodiscard]] constexpr std::uint64_t link_offset(link l) noexcept { return l & link_offset_mask; }

}  // namespace icecore
