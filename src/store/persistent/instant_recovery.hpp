// Opening a store whose index lasts: in a time that depends on how many threads have written, not on how much.
//
// What is read: the roots, the anchor with the writers' logs, and of each writer's open segment what it filled since it
// took it. In memory that survives by cache lines (or in which the last writer's process alone died) a crash leaves
// unfinished only the last operation of each writer: all before it had returned, or its thread had gone on from it, and
// so it was durable, with the head and the index's pair that lead to it. So of each segment's end:
//   - bytes that are no stamped record are of operations that never happened: they are zeroed (so that nothing can make
//     them whole later), and whatever leads to them is passed over, and set back by the next write to its key (H7, H8;
//     a pair in the index never does);
//   - the last record, or batch, happened: what leads to it is made anew where it did not reach the media.
// All that is done here can be done again, should the machine stop meanwhile; the root then still says what it did.
// Nodes that were being changed are mended when they are met (index/persistent/repair.cpp).
//
// If a crash may have left memory in any order (pages on a device, power gone), recovery.hpp opens the store as one
// with another index, and makes the index anew.
#pragma once

#include <utility>
#include <vector>

#include "store/open/opening.hpp"
#include "store/open/session.hpp"
#include "store/persistent/logged_segments.hpp"
#include "store/persistent/writer_tail.hpp"

namespace icecore::detail {

class instant_recovery {
 public:
  /// Whether the store that the pool holds can be opened so.
  [[nodiscard]] static bool possible(const pool_set& p, const options& opening);

  explicit instant_recovery(store_parts& parts) : parts_(parts) {}
  /// The store, opened. Takes the parts.
  [[nodiscard]] std::unique_ptr<store_core> run();

 private:
  void take_over_writers(const durable_parts& made, found_store& found);
  void roll_forward_last_operations(const durable_parts& made);

  store_parts& parts_;
  std::vector<link> last_;
  std::vector<std::pair<unsigned, logged_segments::log>> changed_logs_;
};

}  // namespace icecore::detail
