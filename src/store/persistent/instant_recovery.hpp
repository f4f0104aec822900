// Instant recovery: opens a store with the persistent index in a time that depends on how many threads have written,
// not on how much they wrote.
//
// What is read: the roots, the anchor with the writers' logs, and in each writer's segment what the writer has put
// there since it took the segment. If memory survives by cache lines (or only the last writer's process died), a crash
// leaves only the last operation of each writer unfinished: all operations before it had returned, or the thread had
// gone on from them, so they were durable, with the heads and the index's pairs that lead to them. So at each segment's
// end:
//   - bytes that are not a stamped record belong to operations that never took effect: they are zeroed (so that nothing
//     can make them intact later). What leads to them is passed over, and the next write to its key sets it back (H7,
//     H8; a pair in the index never leads to them);
//   - the last record, or batch, took effect: what leads to it is made again if it did not reach the media.
// Everything done here can be done again if the machine stops meanwhile; the root then still says the same.
// Nodes that were being changed are repaired when they are met (index/persistent/repair.cpp).
//
// If a crash may have left memory in any order (pages on a device, power cut), recovery.hpp opens the store like one
// with another index, and builds the index anew.
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
  /// Whether the store that the pool holds can be opened this way.
  [[nodiscard]] static bool possible(const pool_set& p, const options& opening);

  explicit instant_recovery(store_parts& parts) : parts_(parts) {}
  /// Opens the store. Takes the parts.
  [[nodiscard]] std::unique_ptr<opened_store> run();

 private:
  void take_over_writers(const durable_parts& made, found_store& found);
  void roll_forward_last_operations(const durable_parts& made);

  store_parts& parts_;
  std::vector<link> last_;
  std::vector<std::pair<unsigned, logged_segments::log>> changed_logs_;
};

}  // namespace icecore::detail
