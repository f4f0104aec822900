// How a search in a list gets near to its key.
//
// from_front: every search begins at the front. The list is in key order.
//
// shortcuts: the list is in the order of bit-reversed hashes (Shalev and Shavit, "Split-Ordered Lists: Lock-Free
// Extensible Hash Tables", J. ACM 53, 2006), and a table has a slot for each value of the hash's last bits. Since the
// last bits of a hash are the first of its order, the keys of one slot are neighbours in the list, and when the table
// doubles, each slot's keys divide into a first and a second half: no node moves, and no slot changes its meaning.
// Unlike in the paper the list has no nodes but those of keys: a slot leads to a key's node in front of its own keys.
//
// Threads: all functions, of any process that shares the arena, except prepare() and set(). Lock-free: a thread that
//   fails to grow the table leaves that to another one.
// Invariants:
//   T1. A slot is 0 or leads to a published node whose order is smaller than reversed_bits(its index), so than that of
//       every key of the slot; or to the front.
//   T2. The table has memory for all slots below its size.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <string_view>

#include "index/arena.hpp"
#include "index/list/key_hash.hpp"
#include "index/list/node.hpp"

namespace icecore::index {

class from_front {
 public:
  struct state {};
  struct sought : ordered_key {
    explicit sought(std::string_view bytes) noexcept : ordered_key{head_of(bytes), sought_key(bytes)} {}
  };

  from_front(arena& /*memory*/, state& /*shared*/, node_ref /*front*/) noexcept {}

  [[nodiscard]] static sought sought_for(std::string_view key) noexcept { return sought(key); }
  /// After an insert: nothing has to grow with the list.
  template <class Size>
  static void grow(const sought& /*key*/, const Size& /*size*/) noexcept {}
};

class shortcuts {
 public:
  static constexpr unsigned bits_min = 6;
  static constexpr unsigned bits_max = 31;

  /// Lies in the arena, the same for all processes. Zeroed: a table of no slots but the first, which leads to the
  /// front.
  struct state {
    std::atomic<std::uint32_t> bits{0};     ///< the table has 2^bits slots
    std::atomic<std::uint32_t> claimed{0};  ///< to how many bits some thread is letting it grow
    /// The first has the slots below 2^bits_min, each other one as many as all before it.
    std::array<std::atomic<arena_ref>, bits_max - bits_min + 1> parts{};
  };
  struct sought : ordered_key {
    std::uint64_t hash;
    sought(std::string_view bytes, std::uint64_t of) noexcept
        : ordered_key{reversed_bits(of), sought_key(bytes)}, hash(of) {}
  };

  shortcuts(arena& memory, state& shared, node_ref front, const hash_seed& seed) noexcept
      : memory_(&memory), shared_(&shared), front_(front), seed_(seed) {}

  [[nodiscard]] sought sought_for(std::string_view key) const noexcept { return {key, hash_of(key, seed_)}; }

  /// Hints that near() will be called.
  void prefetch(const sought& key) const noexcept {
    const unsigned bits = this->bits();
    if (bits != 0) __builtin_prefetch(&slot(key.hash & mask(bits)));
  }
  /// A node in front of the key.
  [[nodiscard]] node_ref near(const sought& key) const noexcept { return of_slot(key.hash & mask(bits())); }
  /// A node in front of every key whose order is at least `order`.
  [[nodiscard]] node_ref near_order(std::uint64_t order) const noexcept {
    return of_slot(reversed_bits(order) & mask(bits()));
  }

  /// A search for `key` found `last`, the last node that is in front of all keys of its slot, `passed` nodes behind
  /// near(): the slot shall lead there, so that later searches are shorter.
  void learn(const sought& key, node_ref last, unsigned passed) const noexcept {
    constexpr unsigned enough = 2;
    const unsigned bits = this->bits();
    if (bits == 0) return;
    std::atomic<node_ref>& known = slot(key.hash & mask(bits));
    // release: who follows the slot sees the node (T1). Another thread's store may be lost, or win: either is right.
    if (passed >= enough || known.load(std::memory_order_relaxed) == 0) known.store(last, std::memory_order_release);
  }
  /// The least order that a key of the same slot can have.
  [[nodiscard]] std::uint64_t slot_begin(const sought& key) const noexcept {
    return reversed_bits(key.hash & mask(bits()));
  }

  /// Doubles the table if the list has more keys than it has slots. Looks at the size after one insert in 64, since
  /// adding it up takes long.
  template <class Size>
  void grow(const sought& key, const Size& size) noexcept {
    // bits of the hash that no table uses
    if (key.hash >> 58 != 0 && bits() >= bits_min) [[likely]]
      return;
    const unsigned now = bits();
    if (now < bits_max && size() > std::uint64_t{1} << now) grow_from(now);
  }

  [[nodiscard]] unsigned bits() const noexcept {
    // acquire: the slots are there (T2)
    return shared_->bits.load(std::memory_order_acquire);
  }
  [[nodiscard]] static constexpr std::uint64_t mask(unsigned bits) noexcept { return (std::uint64_t{1} << bits) - 1; }

  // ---- Building: one thread, before any other function, except where it says otherwise ----

  /// Memory for a table that fits `count` keys. Throws std::bad_alloc; then it may have some slots, all of them empty.
  void prepare(std::uint64_t count);
  /// Sets the slot of the `rank`-th part of the hashes in list order. Different slots from different threads.
  void set(std::uint64_t rank, node_ref to) noexcept {
    const unsigned bits = this->bits();
    // relaxed: building publishes everything at its end
    if (bits != 0) slot(reversed_bits(rank << (64 - bits))).store(to, std::memory_order_relaxed);
  }
  /// Which part of the hashes this order belongs to.
  [[nodiscard]] std::uint64_t rank_of(std::uint64_t order) const noexcept {
    const unsigned bits = this->bits();
    return bits == 0 ? 0 : order >> (64 - bits);
  }

  /// What slot `index` says; 0 if nothing.
  [[nodiscard]] node_ref said_by(std::uint64_t index) const noexcept {
    return bits() == 0 ? 0 : slot(index).load(std::memory_order_acquire);  // acquire: T1
  }

 private:
  /// What the slot leads to. An empty slot has the keys of another one in front of its own: those of the index without
  /// its first bit.
  [[nodiscard]] node_ref of_slot(std::uint64_t index) const noexcept {
    while (index != 0) {
      // acquire: the node is visible (T1)
      const node_ref there = slot(index).load(std::memory_order_acquire);
      if (there != 0) [[likely]]
        return there;
      index &= ~std::bit_floor(index);
    }
    return front_;
  }
  [[nodiscard]] std::atomic<node_ref>& slot(std::uint64_t index) const noexcept {
    const auto width = static_cast<unsigned>(std::bit_width(index));
    const unsigned part = width > bits_min ? width - bits_min : 0;
    const std::uint64_t first = part == 0 ? 0 : std::uint64_t{1} << (width - 1);
    // relaxed: bits() acquired it (T2)
    const arena_ref at = shared_->parts[part].load(std::memory_order_relaxed);
    return reinterpret_cast<std::atomic<node_ref>*>(memory_->at(at))[index - first];
  }
  void grow_from(unsigned bits) noexcept;
  void add_part(unsigned bits);

  arena* memory_;
  state* shared_;
  node_ref front_;
  hash_seed seed_;
};

}  // namespace icecore::index
