// The versions that kept queries and kept feeds need: a compaction does not let them expire.
//
//   std::vector<version_range> held = versions_in_use(pools, lock, newest_closed);
//
// A query needs the version that it reads. A feed needs its place, the version before it, from which changes differ,
// and all versions behind, since it is to tell each of them.
//
// Threads: none else changes queries meanwhile. Cost: O(queries and feeds).
#pragma once

#include <vector>

#include "icecore/version_ranges.hpp"
#include "pool/pool_set.hpp"

namespace icecore {
class process_lock;
}

namespace icecore::detail {

/// In any order; up to the newest closed version.
[[nodiscard]] std::vector<version_range> versions_in_use(pool_set& pools, process_lock& lock, version newest_closed);

}  // namespace icecore::detail
