// The changes of all owners in the order of a feed: by version, then key, then the oldest first.
//
//   feed_merge m(core, request);
//   cluster_feed_batch some = m.next(1000, 1s);
//
// Of each owner it has the changes that were fetched and not told yet, and up to which version these are all (`told`).
// Invariants:
//   F1 A change is told only if each other owner either has a later one waiting, or has told all of its version. So
//      no owner can come with an earlier one afterwards. A key has one owner, so ties are within one owner's order.
//   F2 No version is told that is not closed on all ranks (cluster_core C2), or that any rank's power cut took. An
//      owner tells a version only when a power cut would keep it there, so by F1 it would be kept everywhere.
//   F3 The place does not depend on ranks: a version, and of it the last key told with how many of its changes. Whoever
//      begins there asks each owner for all changes of that version, and passes those that were told.
//
// Threads: one. Cost: O(ranks) a change, besides what fetching costs.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "cluster/partitions/partition.hpp"
#include "icecore/cluster_feed.hpp"

namespace icecore::mpi {

class cluster_core;

/// All versions below `at` are told, and of `at` itself the keys before `key`, and of `key` the first `changes`. Or,
/// within the snapshot: of version `at` all keys up to `key`.
struct merged_place {
  version at = 1;
  bool in_snapshot = false;
  bool key_known = false;
  bool beyond_lost = false;  ///< as that of icecore::detail::feed_position
  std::uint64_t changes = 0;
  std::string key{};

  /// The newest version of which something was told.
  [[nodiscard]] version needs() const noexcept { return in_snapshot || key_known ? at : at - 1; }
};

class [[gnu::visibility("hidden")]] feed_merge {
 public:
  feed_merge(const cluster_core& core, const feed_request& what);

  [[nodiscard]] cluster_feed_batch next(std::size_t max, std::chrono::microseconds timeout);
  [[nodiscard]] std::string token() const;

 private:
  using clock = std::chrono::steady_clock;

  struct owner {
    std::deque<cluster_change> waiting{};
    bool waiting_are_items = false;
    version told = 0;          ///< of its own: with what was fetched, all up to this version
    bool in_snapshot = false;  ///< it may have more items of it
    std::string token{};       ///< of its own: behind what was fetched
    std::uint64_t passed = 0;  ///< changes of the place's key that were told before the feed began here
  };

  [[nodiscard]] merged_place begin_of(const feed_request& what) const;
  [[nodiscard]] merged_place place_of(std::string_view token) const;
  void require_readable() const;
  /// Fetches from those owners of which nothing waits though there may be more. Returns whether any had more.
  bool fetch(version limit, std::size_t max);
  void take(owner& from, feed_part&& part);
  [[nodiscard]] bool was_told(owner& from, const cluster_change& change) const;
  void tell_items(std::vector<cluster_change>& out, std::size_t max);
  void tell_changes(std::vector<cluster_change>& out, std::size_t max, version limit);
  /// Moves the place behind the versions that are told as a whole.
  void settle_place(version limit);

  const cluster_core* core_;
  filter where_;
  bool unsynced_;
  merged_place begin_;  // of this object
  merged_place place_;
  std::vector<owner> owners_;
};

}  // namespace icecore::mpi
