// What a node of a list looks like, how it compares with a key, and where nodes come from.
//
// A node stands for one key. It is half a cache line, so two of them share a unit of the arena, and references to nodes
// count in halves of units.
#pragma once

#include <atomic>
#include <cstdint>
#include <new>
#include <string_view>
#include <type_traits>

#include "base/key_head.hpp"
#include "index/arena.hpp"
#include "index/free_list.hpp"
#include "index/index.hpp"
#include "pool/link.hpp"

namespace icecore::index {

/// Distance from the arena's base in units of sizeof(list_node). 0: none.
using node_ref = std::uint32_t;

/// A key that is searched for: its place in the order of the list, then its head.
struct ordered_key {
  std::uint64_t order;
  sought_key key;
};

struct list_node {
  std::uint64_t order;  ///< the list is sorted by it, then by the key's bytes
  std::uint64_t head;   ///< the key's
  link entry;
  node_ref next_ref;  ///< only through the functions below, except while one thread builds
  std::uint16_t key_size;
  std::uint16_t unused;

  /// The node behind this one; 0 at the end. Acquire: all of that node is visible.
  [[nodiscard]] node_ref next() const noexcept {
    return std::atomic_ref(const_cast<node_ref&>(next_ref)).load(std::memory_order_acquire);
  }
  /// Only while the node is not published. Relaxed: publishing releases.
  void set_next(node_ref to) noexcept { std::atomic_ref(next_ref).store(to, std::memory_order_relaxed); }
  /// Links `to` behind this node, if `expected` is still there. Release: publishes `to` and its link.
  [[nodiscard]] bool publish_next(node_ref expected, node_ref to) noexcept {
    return std::atomic_ref(next_ref).compare_exchange_strong(expected, to, std::memory_order_release,
                                                             std::memory_order_relaxed);
  }
};
static_assert(sizeof(list_node) == 32 && arena::unit_bytes == 2 * sizeof(list_node));
static_assert(std::is_trivially_copyable_v<list_node>, "build() sorts nodes in place");

/// Below 0: the key is before the node's; 0: it is the node's; above 0: it is behind it.
[[nodiscard]] inline int compare(const ordered_key& sought, const list_node& with, const key_source& source) noexcept {
  if (sought.order != with.order) [[likely]]
    return sought.order < with.order ? -1 : 1;
  const sought_key& key = sought.key;
  if (key.head != with.head) return key.head < with.head ? -1 : 1;
  // With equal heads, a key of at most 8 bytes is the beginning of the other.
  constexpr std::size_t width = sizeof key.head;
  if (key.bytes.size() <= width || with.key_size <= width) {
    return static_cast<int>(key.bytes.size()) - static_cast<int>(with.key_size);
  }
  return key.bytes.substr(width).compare(source.key_of(with.entry).substr(width));
}

/// Gives out nodes of an arena.
class list_nodes {
 public:
  explicit list_nodes(arena& memory) noexcept : memory_(&memory) {}

  [[nodiscard]] list_node& at(node_ref ref) const noexcept {
    return *reinterpret_cast<list_node*>(memory_->at(0) + std::uint64_t{ref} * sizeof(list_node));
  }
  /// Memory for `count` nodes in a row. Throws std::bad_alloc.
  [[nodiscard]] node_ref allocate(std::uint64_t count) const {
    const arena_ref unit = memory_->allocate(count * sizeof(list_node));
    constexpr std::uint64_t refs_end = std::uint64_t{1} << 32;
    if (std::uint64_t{unit} * per_unit + count > refs_end) throw std::bad_alloc();
    return unit * per_unit;
  }
  /// One node: a spare one, or half of a new unit, whose other half is then spare. Throws std::bad_alloc.
  [[nodiscard]] node_ref take(free_list& spares) const {
    const node_ref spare = spares.take([this](node_ref ref) { return at(ref).next(); });
    if (spare != 0) return spare;
    const node_ref fresh = allocate(per_unit);
    give(spares, fresh + 1);
    return fresh;
  }
  void give(free_list& spares, node_ref ref) const noexcept {
    spares.give(ref, [this](node_ref one, node_ref next) { at(one).set_next(next); });
  }

  static constexpr node_ref per_unit = arena::unit_bytes / sizeof(list_node);

 private:
  arena* memory_;
};

}  // namespace icecore::index
