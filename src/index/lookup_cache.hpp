// A table of recently found entries, by their keys' hashes, in front of an index: a find that hits reads one line and
// the entry, and no node of the index.
//
//   const std::uint64_t hash = lookup_cache::hash_of(key);
//   link entry = cache.candidate(hash);                 // null_link, or an entry that is likely the key's
//   if (entry == null_link || key_of(entry) != key) {   // the caller compares: the entry may be another key's
//     entry = index.find(key);
//     if (entry != null_link) cache.put(hash, entry);
//   }
//
// An entry's key and position never change and no entry is ever removed. So whatever word is read, an entry with the
// right key is the right answer. Nothing is invalidated, and losing a word costs one search.
//
// Each process has its own table. A key's hash selects a line of words; any of them may hold the key's entry. The table
// starts with a page and becomes 64 times as large whenever it has lost an eighth as many entries as it has words, up
// to its bound. So it grows to the size of what is looked up repeatedly, and costs nothing for stores that are small or
// read in order. Growing moves nothing: a word is found again if the hash's new bits are zero; otherwise another key
// eventually replaces it.
//
// Threads: all functions, from any thread, but make_ready() by one at a time.
// Cost: one cache line. docs/design/0010-lookup-cache.md gives the reasons and the gain.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "base/background/memory_ahead.hpp"
#include "base/bytes.hpp"
#include "base/checksum.hpp"
#include "index/lookup_place.hpp"
#include "pool/format.hpp"
#include "pool/link.hpp"

namespace icecore::index {

class lookup_cache final : public memory_ahead {
 public:
  /// At most `bytes_max`, rounded down to a power of two; less than a page means no table. If no addresses are
  /// available there is no table either; nothing depends on it.
  /// `told` learns where the lines are; it may be null.
  lookup_cache(std::uint64_t bytes_max, bool huge_pages, lookup_place* told = nullptr) noexcept;
  ~lookup_cache();
  lookup_cache(const lookup_cache&) = delete;
  lookup_cache& operator=(const lookup_cache&) = delete;

  [[nodiscard, gnu::always_inline]] static std::uint64_t hash_of(std::string_view key) noexcept {
    // of integers, the most frequent keys, without a call
    if (key.size() == sizeof(std::uint64_t)) return mix64(word_at(reinterpret_cast<const std::byte*>(key.data())));
    return std::hash<std::string_view>()(key);
  }

  /// An entry whose key had that hash, as far as the word shows; null_link if none is known.
  [[nodiscard, gnu::always_inline]] link candidate(std::uint64_t hash) const noexcept {
    const std::uint64_t mask = mask_.load(std::memory_order_acquire);  // acquire: the words that it covers can be read
    if (mask == 0) return null_link;
    const word* const line = words_ + (hash & mask);
    std::uint64_t fitting = bytes_equal(line[0].load(std::memory_order_relaxed), tag_of(hash));
    for (; fitting != 0; fitting &= fitting - 1) {
      // acquire: pairs with put(), for what its thread knew of the entry when it had found it
      const std::uint64_t found = line[1 + byte_of(fitting)].load(std::memory_order_acquire);
      if (((found ^ hash) & ~link_mask) == 0) return found & link_mask;
    }
    return null_link;
  }
  /// Prefetches the line of a key's words, for who will only read them.
  [[gnu::always_inline]] void prefetch_for_reading(std::uint64_t hash) const noexcept {
    const std::uint64_t mask = mask_.load(std::memory_order_acquire);  // acquire: as in candidate()
    __builtin_prefetch(words_ + (hash & mask));
  }
  /// Stores an entry that the index has returned. `is_new`: this thread has just made it, so it is not here already,
  /// unless another thread has found it meanwhile and stored it, too.
  void put(std::uint64_t hash, link entry, bool is_new = false) noexcept;

  /// Where new entries need a table of more than a huge page, it grows on another thread from now on: `ask` sees to it
  /// that make_ready() is called there, until it returns false; it returns false itself if it cannot. Before other
  /// threads use the table.
  void grow_elsewhere(std::function<bool()> ask) { ask_ = std::move(ask); }
  [[nodiscard]] bool wanted() const noexcept override {
    return asked_.load(std::memory_order_relaxed);  // relaxed: a hint
  }
  /// The table is as before until all of its new memory is ready.
  bool make_ready() noexcept override;

  /// Whether it never had many entries, so that an index behind it has few keys, or few that are looked up. Without a
  /// table nothing is known.
  [[nodiscard]] bool is_small() const noexcept {
    const std::uint64_t mask = mask_.load(std::memory_order_relaxed);  // relaxed: a hint
    return mask != 0 && mask + words_a_line <= words_min;
  }
  /// How many bytes of memory it may use now.
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    const std::uint64_t mask = mask_.load(std::memory_order_relaxed);  // relaxed: a statistic
    return mask == 0 ? 0 : (mask + words_a_line) * sizeof(word);
  }

 private:
  using word = std::atomic<std::uint64_t>;

  // A line is a word of tags, one byte for each of its other words; a byte of 0 says that its word is empty. A word is
  // a link and, above it, the rest of the hash. This and the tag exclude most entries of other keys.
  static constexpr unsigned link_bits = 52;
  static constexpr std::uint64_t link_mask = (std::uint64_t{1} << link_bits) - 1;
  static_assert(format::files_max <= 1U << (link_bits - link_offset_bits));
  static constexpr std::uint64_t words_min = 4096 / sizeof(word);
  static constexpr unsigned words_a_line = 64 / sizeof(word);
  static constexpr unsigned ways = words_a_line - 1;  ///< words of a line that may hold a key's entry
  static constexpr std::uint64_t repeated = 0x0101010101010101U;
  static constexpr std::uint64_t tags_mask = (std::uint64_t{1} << (8 * ways)) - 1;

  [[nodiscard]] static std::uint64_t tag_of(std::uint64_t hash) noexcept {
    return 0x80U | (hash >> (link_bits - 7) & 0x7FU);
  }
  /// Which bytes of a word of tags equal `tag`: the top bit of each that does. The lowest one is right; those above it
  /// may be wrong, so the caller checks the words that it finds.
  [[nodiscard]] static std::uint64_t bytes_equal(std::uint64_t tags, std::uint64_t tag) noexcept {
    const std::uint64_t differing = tags ^ repeated * tag;
    return (differing - repeated) & ~differing & (repeated << 7) & tags_mask;
  }
  [[nodiscard]] static unsigned byte_of(std::uint64_t equal) noexcept {
    return static_cast<unsigned>(std::countr_zero(equal)) / 8;
  }
  void grow(bool for_writer) noexcept;
  [[nodiscard]] bool begin_growth() noexcept;
  void end_growth() noexcept;

  word* words_ = nullptr;  // zeroed; null if there is no table
  std::byte* mapping_ = nullptr;
  std::uint64_t mapping_bytes_ = 0;
  std::uint64_t words_max_ = 0;
  bool huge_pages_ = false;
  std::atomic<std::uint64_t> mask_{0};  // the bits of the hash that select a key's line; 0: there is no table
  alignas(64) std::atomic<std::uint64_t> driven_out_{0};
  std::atomic<bool> growing_{false};
  std::uint64_t words_growing_ = 0;  // of who is growing it: how many words it is to have
  std::uint64_t ready_ = 0;          // the same: how many of its bytes are ready
  bool under_way_ = false;           // of make_ready()
  std::function<bool()> ask_;
  lookup_place* told_;
  std::atomic<bool> asked_{false};
};

}  // namespace icecore::index
