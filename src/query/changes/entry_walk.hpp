// Walks the entries of the keys within bounds, one by one, in key order; it can be kept between calls.
//
//   entry_walk walk(within_ranges(...));
//   while (const auto entry = walk.next(engine, links)) ...
//
// Threads: one walk, one thread.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "store/read/scan.hpp"

namespace icecore::detail {

class entry_walk {
 public:
  /// `bounds` are ascending, and views of what the caller keeps.
  explicit entry_walk(std::vector<scan_bounds> bounds) : blocks_(std::move(bounds)) {}

  /// Empty at the end.
  template <class Engine>
  [[nodiscard]] std::optional<link> next(const Engine& engine, const index::ordered_links& links) {
    if (entry_ == entries_.size()) {
      entries_ = blocks_.next(engine, links);
      entry_ = 0;
      if (entries_.empty()) return std::nullopt;
    }
    return entries_.read(entry_++);
  }

 private:
  block_walk blocks_;
  walked_entries entries_;  // of the block
  std::size_t entry_ = 0;
};

}  // namespace icecore::detail
