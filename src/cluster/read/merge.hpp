// The items of all owners in one order: a merge of their streams.
//
//   merge m(core, at, bounds);
//   m.seek(from);
//   while (m.valid()) { use(m.current()); m.next(); }
//
// Invariants:
//   N1 A seek of a key asks the key's owner first. If the key is there, no other owner has an item before it, so the
//      others are asked only when the reader moves on; otherwise all of them are asked at once. With ownership by a
//      function, the function is not asked for the owner of the sought bytes, because they may not be a complete key.
// Threads: one.
// Cost: O(log owners) an item, besides the cost of the streams (fetched_stream.hpp, mapped_stream.hpp). If owners hold
//   ranges, they are read one after the other.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "cluster/cluster_core.hpp"

namespace icecore::mpi {

class [[gnu::visibility("hidden")]] merge {
 public:
  merge(const cluster_core& core, version at, const key_bounds& bounds) : core_(core), at_(at), bounds_(bounds) {}

  /// Moves to the first item with key >= `key` (or > `key`) between the bounds; next() then goes up.
  void seek(std::string_view key, bool after = false);
  /// Moves to the last item with key < `key`, or the last of all, between the bounds; next() then goes down.
  void seek_before(std::optional<std::string_view> key);
  [[nodiscard]] bool valid() const noexcept { return !heads_.empty(); }
  /// Views that are valid until the next step. Precondition: valid().
  [[nodiscard]] item current() const { return heads_.front().now; }
  void next();
  [[nodiscard]] bool backward() const noexcept { return backward_; }

 private:
  /// One owner's stream, and its current item.
  struct head {
    std::unique_ptr<item_stream> items;
    item now;
  };

  /// Whether b comes before a.
  [[nodiscard]] auto later() const {
    return [this](const head& a, const head& b) { return backward_ ? a.now.key < b.now.key : a.now.key > b.now.key; };
  }
  /// Starts with these owners, in the order of their ranges if they hold ranges. `sought`: the caller seeks the key
  /// wanted.from.
  void begin(std::vector<int> owners, const scan_request& wanted, bool sought);
  /// Adds the streams of those of these owners that have matching items.
  void open(std::span<const int> owners, const scan_request& wanted);
  void open_next_range(const scan_request& wanted);
  /// Asks the owners that N1 has skipped so far for what follows the current item.
  void ask_the_others();
  /// A request for all that is between the bounds.
  [[nodiscard]] scan_request everything() const;

  const cluster_core& core_;
  const version at_;
  const key_bounds bounds_;
  bool backward_ = false;
  std::vector<head> heads_;   // a heap: its first has the least key, or the greatest when going down
  std::vector<int> waiting_;  // owners of later ranges, the next one last
  std::vector<int> unasked_;  // owners that were not asked (N1)
};

}  // namespace icecore::mpi
