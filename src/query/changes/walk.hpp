// Walks the changes of a range of versions, or the items of a version, by key.
//
//   change_walk walk(after, up_to, bounds);
//   while (walk.next(engine, links, reads, block)) use(block.as_rows());
//   change_walk items(change_walk::snapshot_of{v}, bounds);
//
// Threads: one walk, one thread.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "query/changes/change.hpp"
#include "query/changes/entry_walk.hpp"

namespace icecore::detail {

class change_walk {
 public:
  /// The changes in (after, up_to] of keys within `bounds`, which are ascending, and views of what the caller keeps.
  change_walk(version after, version up_to, std::vector<scan_bounds> bounds)
      : after_(after), up_to_(up_to), entries_(std::move(bounds)) {}
  struct snapshot_of {
    version at;
  };
  /// The items of a version, in place of changes: `at` of each is the version of the record shown.
  change_walk(snapshot_of what, std::vector<scan_bounds> bounds)
      : after_(0), up_to_(what.at), items_(true), entries_(std::move(bounds)) {}

  /// The next changes, at most rows_max of them; false, and none, at the end.
  template <class Engine>
  [[nodiscard]] bool next(const Engine& engine, const index::ordered_links& links, needs_of reads, change_block& out) {
    out.clear();
    while (!out.full()) {
      const auto found = next(engine, links);
      if (!found) break;
      out.add(engine, *found, reads);
    }
    return out.as_rows().size > 0;
  }
  /// The next one; empty at the end.
  template <class Engine>
  [[nodiscard]] std::optional<change_at> next(const Engine& engine, const index::ordered_links& links) {
    while (change_ == of_key_.size()) {
      const auto entry = entries_.next(engine, links);
      if (!entry) return std::nullopt;
      read(engine, *entry);
    }
    return of_key_[change_++];
  }

 private:
  template <class Engine>
  void read(const Engine& engine, link entry) {
    of_key_.clear();
    change_ = 0;
    if (!items_) {
      append_changes(engine, entry, after_, up_to_, of_key_);
    } else if (const link shown = engine.entry_visible_at(entry, up_to_); shown != null_link) {
      of_key_.push_back({engine.histories().stamp_of(shown), shown});
    }
  }

  version after_;
  version up_to_;
  bool items_ = false;
  entry_walk entries_;
  std::vector<change_at> of_key_;
  std::size_t change_ = 0;
};

}  // namespace icecore::detail
