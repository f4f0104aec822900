// The items of all owners in one order: a merge of streams that are fetched in blocks.
//
//   merge m(core, at, bounds);
//   m.seek(from);
//   while (m.valid()) { use(m.key(), m.value()); m.next(); }
//
// Threads: one.
// Cost: O(log owners) an item, one message a block and owner. Owners that hold ranges are read one after the other.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "cluster/cluster_core.hpp"

namespace icecore::mpi {

class merge {
 public:
  merge(const cluster_core& core, version at, const key_bounds& bounds) : core_(core), at_(at), bounds_(bounds) {}

  /// To the first item with key >= `key`, or the first of all.
  void seek(std::string_view key);
  [[nodiscard]] bool valid() const noexcept { return !heads_.empty(); }
  /// Views that are valid until the next step. Precondition: valid().
  [[nodiscard]] item current() const;
  void next();

 private:
  /// One owner's items from somewhere on.
  struct stream {
    partition* from;
    scan_block block;
    std::size_t position = 0;
    [[nodiscard]] std::string_view key() const { return block.items[position].first; }
  };

  [[nodiscard]] scan_request request(std::string_view from, bool after) const;
  /// Adds the streams of these owners whose first item is at or after `from`.
  void open(std::span<const int> owners, std::string_view from);
  /// Fetches until the stream has an item; false if it has ended.
  [[nodiscard]] bool refill(stream& ended) const;
  void open_next_range_from(std::string_view from);

  const cluster_core& core_;
  const version at_;
  const key_bounds bounds_;
  std::vector<std::unique_ptr<stream>> heads_;  // a heap: the one with the least key is first
  std::vector<int> waiting_;                    // owners of later ranges, the next last
};

}  // namespace icecore::mpi
