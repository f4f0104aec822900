// The items of all owners in one order: a merge of their streams.
//
//   merge m(core, at, bounds);
//   m.seek(from);
//   while (m.valid()) { use(m.current()); m.next(); }
//
// Invariants:
//   N1 Whoever seeks a key asks its owner first. If the key is there, no other owner has an item before it, so they are
//      asked only when the reader goes on; else all of them are asked at once. An ownership by a function is not asked
//      whose the sought bytes are: they may be no whole key.
// Threads: one.
// Cost: O(log owners) an item, besides what the streams cost (fetched_stream.hpp, mapped_stream.hpp). Owners that hold
//   ranges are read one after the other.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "cluster/cluster_core.hpp"

namespace icecore::mpi {

class [[gnu::visibility("hidden")]] merge {
 public:
  merge(const cluster_core& core, version at, const key_bounds& bounds) : core_(core), at_(at), bounds_(bounds) {}

  /// To the first item with key >= `key` (or > `key`) between the bounds; next() goes up from there.
  void seek(std::string_view key, bool after = false);
  /// To the last item with key < `key`, or the last of all, between the bounds; next() goes down from there.
  void seek_before(std::optional<std::string_view> key);
  [[nodiscard]] bool valid() const noexcept { return !heads_.empty(); }
  /// Views that are valid until the next step. Precondition: valid().
  [[nodiscard]] item current() const { return heads_.front().now; }
  void next();
  [[nodiscard]] bool backward() const noexcept { return backward_; }

 private:
  /// One owner's items from somewhere on, and the first of them.
  struct head {
    std::unique_ptr<item_stream> items;
    item now;
  };

  /// Whether b comes before a.
  [[nodiscard]] auto later() const {
    return [this](const head& a, const head& b) { return backward_ ? a.now.key < b.now.key : a.now.key > b.now.key; };
  }
  /// Begins anew with these owners, in the order of their ranges where they hold some.
  /// `sought`: somebody asked for the key wanted.from.
  void begin(std::vector<int> owners, const scan_request& wanted, bool sought);
  /// Adds the streams of these owners that have what is wanted.
  void open(std::span<const int> owners, const scan_request& wanted);
  void open_next_range(const scan_request& wanted);
  /// Asks the owners that N1 has spared so far for what lies behind the current item.
  void ask_the_others();
  /// All that is between the bounds.
  [[nodiscard]] scan_request everything() const;

  const cluster_core& core_;
  const version at_;
  const key_bounds bounds_;
  bool backward_ = false;
  std::vector<head> heads_;   // a heap: the one with the least key is first, going down the greatest
  std::vector<int> waiting_;  // owners of later ranges, the next last
  std::vector<int> spared_;   // owners that were not asked (N1)
};

}  // namespace icecore::mpi
