// The lock of kept queries, in memory that processes share: held while their segments, phases and runners change.
//
// What lies beside the lock is of who holds it.
#pragma once

#include "base/locks/process_lock.hpp"

namespace icecore {

struct query_lock {
  process_lock lock;
  /// Whether free segments are cleared before they are used again: as long as bytes that are to be forgotten may lie in
  /// some. After a kill it may stay so, which costs time and nothing else.
  bool clears_segments = false;
};

}  // namespace icecore
