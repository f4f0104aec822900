// What a node of the skip list looks like, and how a key compares with one.
//
// A tower stands for one key. It holds the entry's link, the first 8 bytes of the key as a number (its head), and a
// reference to its successor on each of its levels. Heads decide nearly every comparison of integer keys without
// reading the entry; a tower of up to 11 levels is one cache line.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/key_head.hpp"
#include "index/arena.hpp"
#include "index/index.hpp"
#include "pool/link.hpp"

namespace icecore::index {

/// One tower in four reaches the level above: 4^16 keys find a level with a few towers.
inline constexpr unsigned height_max = 16;

struct tower {
  std::uint64_t head;
  link entry;
  std::uint16_t key_size;
  std::uint16_t height;  ///< levels, 1 to height_max

  /// The successor on `level`, which must be below `height`; 0 at the end. Acquire: the whole successor is visible.
  [[nodiscard]] arena_ref next(unsigned level) const noexcept { return links()[level].load(std::memory_order_acquire); }
  /// Only while the tower is not published on this level, or while one thread builds. Relaxed: publishing releases.
  void set_next(unsigned level, arena_ref to) noexcept { links()[level].store(to, std::memory_order_relaxed); }
  /// Links `to` behind this tower on `level`, if `expected` is still there. Release: publishes `to` and its links.
  [[nodiscard]] bool publish_next(unsigned level, arena_ref expected, arena_ref to) noexcept {
    return links()[level].compare_exchange_strong(expected, to, std::memory_order_release, std::memory_order_relaxed);
  }

  [[nodiscard]] static constexpr std::size_t bytes_of(unsigned height) noexcept {
    return (sizeof(tower) - sizeof(std::uint32_t) + height * sizeof(std::atomic<arena_ref>) + arena::unit_bytes - 1) /
           arena::unit_bytes * arena::unit_bytes;
  }

 private:
  // The references begin in the struct's padding and continue behind the struct.
  [[nodiscard]] std::atomic<arena_ref>* links() const noexcept {
    auto* const self = reinterpret_cast<std::byte*>(const_cast<tower*>(this));
    return reinterpret_cast<std::atomic<arena_ref>*>(self + sizeof(tower) - sizeof(std::uint32_t));
  }
};
static_assert(sizeof(tower) == 24 && tower::bytes_of(11) == arena::unit_bytes);

/// Below 0: the key is before the tower's; 0: it is the tower's; above 0: it is behind it.
[[nodiscard]] inline int compare(const sought_key& key, const tower& with, const key_source& source) noexcept {
  if (key.head != with.head) [[likely]]
    return key.head < with.head ? -1 : 1;
  // With equal heads, a key of at most 8 bytes is the beginning of the other.
  constexpr std::size_t width = sizeof key.head;
  if (key.bytes.size() <= width || with.key_size <= width) {
    return static_cast<int>(key.bytes.size()) - static_cast<int>(with.key_size);
  }
  return key.bytes.substr(width).compare(source.key_of(with.entry).substr(width));
}

}  // namespace icecore::index
