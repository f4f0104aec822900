// The lock-free skip list: an ordered_index in which no thread ever waits for another.
//
//   const auto list = make_skip_list(source, {.huge_pages = true});
//   const link there = list->insert(key, entry);        // entry, or the link that had the key already
//
// After Algorithms 2 and 3 of the IPDPS 2022 paper. FindSkip records the predecessor and successor of a key on each
// level. A new tower is linked by one compare-and-swap on each level, the lowest first. The one on level 0 decides
// whether the tower is in the list: the links above are shortcuts, which a find may still miss. Towers are never
// unlinked, so there is no reclamation and no marking. Heights are drawn with probability 1/4 a level, not 1/2: this
// needs half as many references, and a tower fits into a cache line.
//
// Threads: as ordered_index says; lock-free (a failed compare-and-swap means that another thread's succeeded), except
//   for memory, which the kernel provides. Failures: std::bad_alloc from insert() and build(), and then the list is as
//   before.
// Invariants:
//   K1. On each level, towers ascend strictly; a tower on level l is on all levels below l.
//   K2. A tower's head, entry, key_size and height never change once it is published on level 0; its successor on a
//       level is only ever replaced by a tower between the two.
// Files: tower.hpp (layout, comparison), skip_list.cpp (search, insert), walk.cpp (blocks), build.cpp (build, check).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "index/arena.hpp"
#include "index/counter.hpp"
#include "index/free_list.hpp"
#include "index/index.hpp"
#include "index/skip_list/tower.hpp"

namespace icecore::index {

class skip_list final : public ordered_index {
 public:
  /// The list that the arena holds, or a new one if it holds none. `source` must outlive it. Throws std::bad_alloc.
  skip_list(const key_source& source, std::shared_ptr<arena> memory);

  [[nodiscard]] link find(std::string_view key) const noexcept override;
  void find_many(std::span<const std::string_view> keys, std::span<link> out) const noexcept override;
  using ordered_index::insert;
  link insert(std::string_view key, entry_factory& factory) override;

  /// As ordered_index says. In addition, the first link of `out` is the lower bound itself; `out` is empty only if
  /// there is none.
  void seek(std::string_view key, block& out) const noexcept override;
  void seek_first(block& out) const noexcept override;
  void seek_last(block& out) const noexcept override;
  bool next_block(block& b) const noexcept override;
  bool block_before(std::string_view key, block& out) const noexcept override;
  [[nodiscard]] std::vector<link> split_points(std::size_t count) const override;

  void build(std::span<const link> sorted, unsigned threads) override;
  [[nodiscard]] std::uint64_t size() const noexcept override { return shared_->size.sum(); }
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept override { return arena_.used_bytes(); }
  [[nodiscard]] std::vector<std::string> check() const override;

 private:
  /// Where a key is, or would be, on each level.
  struct position {
    std::array<arena_ref, height_max> predecessors;
    std::array<arena_ref, height_max> successors;  ///< the first towers whose keys are not smaller; 0: none
  };
  class unused_tower;
  struct lookup;

  [[nodiscard]] tower& at(arena_ref ref) const noexcept { return *reinterpret_cast<tower*>(arena_.at(ref)); }
  /// Levels in use; a search starts at the highest of them.
  [[nodiscard]] unsigned height() const noexcept {
    // relaxed: a hint; a search that misses higher levels takes fewer shortcuts
    return shared_->height.load(std::memory_order_relaxed);
  }

  // skip_list.cpp
  [[nodiscard]] arena_ref find_skip(const sought_key& key, position& out) const noexcept;
  [[nodiscard]] arena_ref advance(const sought_key& key, unsigned level, position& out) const noexcept;
  [[nodiscard]] arena_ref last_before(const sought_key* key, unsigned level) const noexcept;
  [[nodiscard]] arena_ref lower_bound(const sought_key& key) const noexcept;
  void link_above(arena_ref fresh, const sought_key& key, position& where) noexcept;
  void raise_height(unsigned to) noexcept;
  [[nodiscard]] arena_ref take_tower(unsigned height);
  void give_back(arena_ref ref, unsigned height) noexcept;

  // walk.cpp
  void read_from(arena_ref first, block& out) const noexcept;
  [[nodiscard]] bool read_before(const sought_key* key, block& out) const noexcept;

  // build.cpp
  void fill(std::span<const link> sorted, arena_ref base, std::uint64_t begin, std::uint64_t end) const noexcept;

  /// A list's data besides its towers. It lies in the arena, the same for all processes.
  struct state {
    arena_ref first = 0;  ///< a tower of all levels before every key
    std::atomic<unsigned> height{1};
    spread_counter size;
    /// Towers made for a key that another thread inserted first, by height.
    std::array<free_list, height_max + 1> free_towers;
  };

  const key_source& source_;
  std::shared_ptr<arena> memory_;
  arena& arena_;
  state* shared_;
  arena_ref first_;  ///< a copy of the state's
};

/// Calls the constructor.
[[nodiscard]] std::unique_ptr<ordered_index> make_skip_list(const key_source& source, std::shared_ptr<arena> memory);
/// An empty skip list with an arena of its own.
[[nodiscard]] std::unique_ptr<ordered_index> make_skip_list(const key_source& source, arena_options options = {});

}  // namespace icecore::index
