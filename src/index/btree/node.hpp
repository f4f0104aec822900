// What a B+-tree node looks like, and how one is searched.
//
// A node holds up to `slot_count` links in key order. In a leaf they are the entries; in an inner node each is a
// separator: the entry whose key is the lowest of the child to its right. Keys are never removed, so an entry's link
// can stand for its key in separators and fences for ever, and no key bytes are copied.
//
// Beside each link is its head: the 8 bytes of its key after the node's prefix, big-endian, zeros behind the key's end.
// So integers compare like the bytes. Heads decide nearly every comparison. If heads are equal (longer keys, or a
// shorter one padded), the complete keys decide.
//
// Node invariants (outside a writer's lock; check() verifies each):
//   N1. low is the lowest link the node may hold (null: no bound), high the lowest it may not (null: no bound). low
//       never changes; high changes only in a split, to the low of the new right neighbour.
//   N2. The first link of every leaf except the leftmost is its low. (So each leaf except the leftmost holds at least
//       one.)
//   N3. A closed node has both fences. Its prefix_length is at most their common prefix, so every key that the descent
//       brings here has that prefix. An open node's prefix is only common to its links, and a search compares the key's
//       beginning with that of links[0].
//   N4. links[0, count) ascend strictly; heads belong to them; heads[count, slot_count) are `no_head`.
//   N5. Inner nodes: children[0, count] are one level lower; child i spans [links[i - 1], links[i]), the outer bounds
//       being the node's own fences.
//   N6. Leaves: next is the leaf whose low is this leaf's high; 0 for the last one.
//   N7. A uniform node's links all have keys of key_size bytes. So if these end within the head, as integers do, equal
//       heads are equal keys, and a find reads no entry even if the key is there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "base/key_head.hpp"
#include "base/memory/sanitizer.hpp"
#include "index/arena.hpp"
#include "index/btree/optimistic_lock.hpp"
#include "index/index.hpp"
#include "pool/link.hpp"

namespace icecore::index {

inline constexpr unsigned slot_count = 64;
/// An inner node leaves its last slot empty, so that its children fill whole lines.
inline constexpr unsigned separator_count_max = slot_count - 1;
inline constexpr std::uint64_t no_head = std::numeric_limits<std::uint64_t>::max();

/// What a search must know of a node, in one word: one load reads it, so it is never torn.
struct alignas(8) node_form {
  std::uint16_t count = 0;
  std::uint16_t prefix_length = 0;
  std::uint16_t key_size = 0;  ///< of every key, if uniform
  std::uint8_t level = 0;      ///< 0: leaf; never changes
  bool open : 1 = true;        ///< a fence is missing
  bool uniform : 1 = true;     ///< all keys are of one size

  /// Whether a head that equals the head of `key` proves that the keys are equal (N7).
  [[nodiscard]] bool heads_are_exact_for(std::string_view key) const noexcept {
    return uniform && key.size() == key_size && key.size() <= prefix_length + sizeof(std::uint64_t);
  }
  /// Called before keys of this size (or of different sizes) are added.
  void admit_size(bool all_of_one_size, std::size_t size) noexcept {
    if (count != 0 && uniform && all_of_one_size && key_size == size) [[likely]]
      return;
    if (count == 0) {
      key_size = static_cast<std::uint16_t>(size);
      uniform = all_of_one_size;
    } else if (!all_of_one_size || key_size != size) {
      uniform = false;
    }
  }
};

struct alignas(arena::unit_bytes) node {
  optimistic_lock lock;
  guarded<node_form> form;
  guarded<link> low;
  guarded<link> high;
  guarded<arena_ref> next;             ///< leaves: the right neighbour
  std::atomic<std::uint16_t> last{0};  ///< leaves: the slot of the last insert; writers only, inside the lock
  /// leaves: how many inserts in a row went just behind (> 0) or before (< 0) the previous one
  std::atomic<std::int16_t> run{0};
  alignas(arena::unit_bytes) guarded<std::uint64_t> heads[slot_count];
  guarded<link> links[slot_count];

  node(std::uint8_t level, link low_fence, link high_fence) noexcept : low(low_fence), high(high_fence) {
    form.store({.level = level, .open = low_fence == null_link || high_fence == null_link});
    for (auto& head : heads) head.store(no_head);
  }
  [[nodiscard]] bool is_leaf() const noexcept { return form.load().level == 0; }

  // The following functions are for writers, inside the lock or before the node is published (node.cpp).

  /// Moves slots [slot, count) up by one.
  void make_room(std::size_t slot, std::size_t count) noexcept;
  /// Fills this empty node with the slots [first, count) of `other`, whose form is `other_form`, and takes over its
  /// prefix.
  void take_slots(const node& other, unsigned first, node_form other_form) noexcept;
  /// Removes the slots from `first` on.
  void drop_slots(unsigned first) noexcept;
  /// Makes the form agree with the fences.
  void refresh_open() noexcept;
  /// Stores where an insert went.
  void note_insert(unsigned slot) noexcept;
  /// Where to split this full leaf so that an insert at `slot` gets room; `slot_count` if it needs a new leaf of its
  /// own.
  // A stream of ascending (or descending) keys leaves full leaves behind.
  [[nodiscard]] unsigned cut_for_insert(unsigned slot) const noexcept;
};

struct inner_node : node {
  guarded<arena_ref> children[slot_count];
  using node::node;
};

static_assert(offsetof(node, heads) == 64 && sizeof(node) == 64 + 16 * slot_count);
static_assert(slot_count <= block::capacity, "a leaf must fit into a block");

/// Adds one to `count` if the head in a node is smaller than `head`.
[[gnu::always_inline]] inline void count_if_smaller(std::size_t& count, const guarded<std::uint64_t>& in_node,
                                                    std::uint64_t head) noexcept {
#if defined(__x86_64__) && !defined(ICECORE_UNDER_THREAD_SANITIZER)
  // Assembly: compilers first load an atomic word into a register, and need three instructions. An aligned load is
  // atomic on x86-64 and acquires; for the compiler, the fence in count_smaller() keeps later loads behind it. The
  // thread sanitizer does not see this load, so it gets the other one.
  asm("cmpq %2, %1\n\tadcq $0, %0" : "+r"(count) : "m"(in_node), "r"(head) : "cc");
#else
  count += in_node.load() < head ? 1 : 0;
#endif
}

/// How many heads are smaller. Each of three steps compares the ends of all quarters but the last, which shows the
/// quarter that decides. All loads of a step are independent and there is no branch. So nothing is mispredicted, and
/// the processor can begin the caller's next work before the lines have arrived.
[[nodiscard]] inline unsigned count_smaller(const guarded<std::uint64_t>* heads, std::uint64_t head) noexcept {
  static_assert(slot_count == 64, "three steps of quarters");
  std::size_t sixteens = 0;
  for (const unsigned i : {15U, 31U, 47U}) count_if_smaller(sixteens, heads[i], head);
  const auto* const in_quarter = heads + 16 * sixteens;
  std::size_t fours = 0;
  for (const unsigned i : {3U, 7U, 11U}) count_if_smaller(fours, in_quarter[i], head);
  const auto* const in_four = in_quarter + 4 * fours;
  std::size_t smaller = 16 * sixteens + 4 * fours;
  for (const unsigned i : {0U, 1U, 2U, 3U}) count_if_smaller(smaller, in_four[i], head);
  std::atomic_signal_fence(std::memory_order_acquire);
  return static_cast<unsigned>(smaller);
}

/// The longest prefix that N3 allows. Reads two keys.
[[nodiscard]] std::size_t longest_prefix(const node& n, const key_source& source) noexcept;

struct place {
  unsigned slot;  ///< the first whose key is not smaller; the node's count if there is none
  link equal;     ///< its link if the keys are equal, else null
};

/// How `key` compares with the prefix of the node's links; 0 if it has that prefix, as it must in a closed node (N3).
[[nodiscard]] int compare_with_prefix(const node& n, std::string_view key, const key_source& source) noexcept;

/// Searches equal heads from slot `first` on by comparing whole keys.
[[nodiscard]] place lower_bound_of_equal_heads(const node& n, unsigned first, std::string_view key,
                                               const key_source& source) noexcept;

/// Where `key` is among the links of a node, or would be; `form` is the node's. Optimistic: valid only if the node's
/// lock validates afterwards. Rare steps load the form again: the common ones then keep only two of its parts.
[[nodiscard]] inline place lower_bound(const node& n, node_form form, const sought_key& key,
                                       const key_source& source) noexcept {
  std::uint64_t head = key.head;
  if (form.prefix_length != 0) {
    if (n.form.load().open) [[unlikely]] {
      const int order = compare_with_prefix(n, key.bytes, source);
      if (order != 0) return {order < 0 ? 0U : form.count, null_link};
    }
    head = head_of(key.bytes, form.prefix_length);
  }
  const unsigned slot = count_smaller(n.heads, head);
  if (slot >= form.count) return {slot, null_link};  // it is the count, or what was read is torn
  if (n.heads[slot].load() != head) [[likely]]
    return {slot, null_link};
  if (n.form.load().heads_are_exact_for(key.bytes)) return {slot, n.links[slot].load()};
  return lower_bound_of_equal_heads(n, slot, key.bytes, source);
}

// Always inlined: GCC takes a function that only prefetches for one without an effect and drops its calls.

template <std::size_t begin, std::size_t end>
[[gnu::always_inline]] inline void prefetch_lines(const std::byte* n) noexcept {
#pragma GCC unroll 32
  for (std::size_t line = begin; line < end; line += arena::unit_bytes) __builtin_prefetch(n + line);
}

/// Prefetches all lines that the search of a node may read: it is known too late which of them it will read.
[[gnu::always_inline]] inline void prefetch_for_search(const std::byte* n, unsigned level) noexcept {
  constexpr std::size_t links = offsetof(node, links);
  prefetch_lines<0, links>(n);
  if (level == 0) {
    prefetch_lines<links, sizeof(node)>(n);
  } else {  // a separator's link is read only if heads are equal
    prefetch_lines<sizeof(node), sizeof(inner_node)>(n);
  }
}

/// Prefetches the lines that a walk over leaves reads.
[[gnu::always_inline]] inline void prefetch_for_scan(const std::byte* n) noexcept {
  prefetch_lines<0, arena::unit_bytes>(n);
  prefetch_lines<offsetof(node, links), sizeof(node)>(n);
}

}  // namespace icecore::index
