// Walks the entries of the keys within bounds, one by one, in key order; it can be kept between calls.
//
//   entry_walk walk(within_ranges(...));
//   while (const auto entry = walk.next(engine, links)) ...
//
// Threads: one walk, one thread.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "store/read/scan.hpp"

namespace icecore::detail {

class entry_walk {
 public:
  /// `bounds` are ascending, and views of what the caller keeps.
  explicit entry_walk(std::vector<scan_bounds> bounds) : bounds_(std::move(bounds)) {}
  entry_walk(const entry_walk&) = delete;
  entry_walk& operator=(const entry_walk&) = delete;

  /// Empty at the end.
  template <class Engine>
  [[nodiscard]] std::optional<link> next(const Engine& engine, const index::ordered_links& links) {
    while (entry_ == entries_.size()) {
      if (!next_block(engine, links)) return std::nullopt;
    }
    return entries_[entry_++];
  }

 private:
  /// False at the end.
  template <class Engine>
  bool next_block(const Engine& engine, const index::ordered_links& links) {
    entries_ = {};
    entry_ = 0;
    if (range_ == bounds_.size()) return false;
    const scan_bounds& bounds = bounds_[range_];
    bool there = true;
    if (!std::exchange(in_range_, true)) {
      links.seek(bounds.from, block_);
    } else {
      there = links.next_block(block_);
    }
    if (there) {
      prefetch_entries(engine, block_);
      entries_ = within(engine, block_, bounds);
    }
    const bool beyond = there && block_.size > 0 && bounds.beyond(engine.key_of(block_.entries[block_.size - 1]));
    if (!there || beyond || block_.next == 0) {
      ++range_;
      in_range_ = false;
    }
    return true;
  }

  std::vector<scan_bounds> bounds_;
  std::size_t range_ = 0;
  bool in_range_ = false;  // block_ is one of this range
  index::block block_{};
  std::span<const link> entries_;  // of block_, within the bounds
  std::size_t entry_ = 0;
};

}  // namespace icecore::detail
