// How a node of the persistent index is read, searched and checked. pool/format.hpp, index_node, defines its layout.
//
// A node holds up to 27 pairs of a key's head and a link. A new pair goes to any free slot; the order words say which
// slots count and in which order, so finds are binary searches although no pair is ever moved. As in UPSkipList a node
// has many keys; but there they are unsorted, and a find reads all of them.
//
// Node invariants (outside a writer's lock; check() verifies each):
//   N1. low is the entry with the least key that the node may hold (null: no bound) and never changes; high is the low
//       of the right neighbour (null: there is none).
//   N2. Every node except the first of its level holds its low: a leaf as its first pair, any other node in its first
//       child.
//   N3. prefix_length is at most the common prefix of low and high, as they were at some time since the last split, and
//       so at most that of all keys in the node; 0 if low or high is missing.
//   N4. The keys of order[0, count) ascend strictly; heads belong to them; order bytes behind count are 0xff.
//   N5. Pairs of a node of level n > 0 lead to nodes of level n - 1, each with a key that is that node's low; the first
//       pair of a level's first node leads to the first node below.
//   N6. From a level's first node, `next` leads through all nodes of the level, in order. So a node without a pair
//       above is still found, one step to the right (P. Lehman, S. B. Yao: Efficient Locking for Concurrent Operations
//       on B-Trees, TODS 1981).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "base/checksum.hpp"
#include "base/key_head.hpp"
#include "pool/format.hpp"

namespace icecore::index {

using format::index_node;
using format::index_pairs_max;

/// The order words of a node, as they were read: which slots count.
class node_order {
 public:
  static constexpr unsigned no_slot = 0xff;
  static constexpr unsigned words = format::index_order_words;

  /// For a node without pairs.
  explicit node_order(unsigned level = 0, unsigned prefix_length = 0) noexcept {
    words_.fill(~std::uint64_t{0});
    set_byte(count_byte, 0);
    set_byte(level_byte, level);
    set_byte(unused_byte, 0);
    set_prefix_length(prefix_length);
  }
  // acquire: see node_lock.hpp
  explicit node_order(const index_node& n) noexcept {
    for (unsigned i = 0; i < words; ++i) words_[i] = n.order[i].load(std::memory_order_acquire);
  }

  /// At most index_pairs_max, whatever was read from the node.
  [[nodiscard]] unsigned count() const noexcept { return std::min(byte(count_byte), index_pairs_max); }
  [[nodiscard]] unsigned level() const noexcept { return byte(level_byte); }
  [[nodiscard]] unsigned prefix_length() const noexcept { return byte(prefix_byte) | byte(prefix_byte + 1) << 8; }
  /// The slot of the i-th key; always a valid slot, whatever was read from the node.
  [[nodiscard]] unsigned slot(unsigned i) const noexcept { return std::min(byte(i), index_pairs_max - 1); }
  /// The same, or no_slot.
  [[nodiscard]] unsigned byte(unsigned i) const noexcept {
    return reinterpret_cast<const unsigned char*>(words_.data())[i];  // little-endian, as the format is
  }
  /// A slot that does not count; the caller must know that there is one.
  [[nodiscard]] unsigned free_slot() const noexcept {
    std::uint32_t used = 0;
    for (unsigned i = 0; i < count(); ++i) used |= std::uint32_t{1} << slot(i);
    return static_cast<unsigned>(__builtin_ctz(~used));
  }

  void insert(unsigned at, unsigned new_slot) noexcept {
    const unsigned n = count();
    const std::uint64_t no_slots = words_.back() & ~last_slots;
    const unsigned word = at / 8;
    for (unsigned i = words - 1; i > word; --i) words_[i] = words_[i] << 8 | words_[i - 1] >> 56;
    const unsigned shift = at % 8 * 8;
    const std::uint64_t before = (std::uint64_t{1} << shift) - 1;
    words_[word] = (words_[word] & before) | std::uint64_t{new_slot} << shift | (words_[word] & ~before) << 8;
    words_.back() = (words_.back() & last_slots) | no_slots;
    set_byte(count_byte, n + 1);
  }
  void cut(unsigned n) noexcept {
    for (unsigned i = n; i < count(); ++i) set_byte(i, no_slot);
    set_byte(count_byte, n);
  }
  void set_prefix_length(unsigned length) noexcept {
    set_byte(prefix_byte, length & 0xff);
    set_byte(prefix_byte + 1, length >> 8);
  }

  /// Writes the words that differ, after a pair was added or the last pairs were cut off. The last word is written
  /// first. Any number of these stores may be on the media: then they have the old count, or the new count with bytes
  /// that occur twice, or no_slot where a byte is yet to be written. No slot that counts is missing.
  void store_in(index_node& n) const noexcept {
    for (unsigned i = words; i-- > 0;) store_word(n, i);
  }
  /// The same if bytes were taken out, so that others move to the front. The first word is written first: a byte that
  /// leaves a word is in the word before it already.
  void store_fewer_in(index_node& n) const noexcept {
    for (unsigned i = 0; i < words; ++i) store_word(n, i);
  }

 private:
  static constexpr unsigned count_byte = index_pairs_max;
  static constexpr unsigned level_byte = count_byte + 1;
  static constexpr unsigned prefix_byte = level_byte + 1;
  static constexpr unsigned unused_byte = prefix_byte + 2;
  static_assert(unused_byte == words * 8 - 1);
  /// The bytes of the last word that are slots.
  static constexpr std::uint64_t last_slots = (std::uint64_t{1} << index_pairs_max % 8 * 8) - 1;

  void store_word(index_node& n, unsigned i) const noexcept {
    // relaxed: inside the lock; release: see node_lock.hpp
    if (n.order[i].load(std::memory_order_relaxed) != words_[i]) n.order[i].store(words_[i], std::memory_order_release);
  }
  void set_byte(unsigned i, unsigned value) noexcept {
    const unsigned shift = i % 8 * 8;
    words_[i / 8] = (words_[i / 8] & ~(std::uint64_t{0xff} << shift)) | std::uint64_t{value} << shift;
  }

  std::array<std::uint64_t, words> words_;
};

// acquire, all of these: see node_lock.hpp
[[nodiscard]] inline std::uint64_t head_at(const index_node& n, const node_order& order, unsigned i) noexcept {
  return n.pairs[order.slot(i)].head.load(std::memory_order_acquire);
}
[[nodiscard]] inline link to_at(const index_node& n, const node_order& order, unsigned i) noexcept {
  return n.pairs[order.slot(i)].to.load(std::memory_order_acquire);
}

/// The first pair from `first` on whose head is not smaller; count() if there is none.
[[nodiscard]] inline unsigned first_not_below(const index_node& n, const node_order& order, unsigned first,
                                              std::uint64_t head) noexcept {
  unsigned base = first;
  unsigned length = order.count() - std::min(first, order.count());
  if (length == 0) return base;
  while (length > 1) {  // without branches: they would be unpredictable
    const unsigned half = length / 2;
    base += head_at(n, order, base + half - 1) < head ? half : 0;
    length -= half;
  }
  return base + (head_at(n, order, base) < head ? 1 : 0);
}

/// The checksum that a free node's word carries.
[[nodiscard]] std::uint16_t check_of(const index_node& n, std::uint32_t seed) noexcept;

/// Prefetches the lines that the search of a node reads. Always inlined: GCC takes a function that only prefetches for
/// one without an effect and drops its calls.
[[gnu::always_inline]] inline void prefetch_node(const std::byte* n) noexcept {
#pragma GCC unroll 8
  for (std::size_t line = 0; line < sizeof(index_node); line += format::cache_line_size) __builtin_prefetch(n + line);
}

}  // namespace icecore::index
