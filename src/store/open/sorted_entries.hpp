// Sorting the entries that a survey found by their keys, on several threads.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "history/history.hpp"
#include "store/open/record_scan.hpp"

namespace icecore::detail {

struct entries_in_order {
  std::vector<link> entries;                        ///< ascending by key
  std::optional<std::pair<link, link>> of_one_key;  ///< two of them, if any two have the same key
};

/// All entries of the survey, sorted by as many threads as made it. O(n log n), O(n) memory: 40 bytes an entry while
/// it runs, and as many again for each level of crowded buckets, at most 8.
//
// Each entry gets a head, the 8 bytes of its key behind what all keys begin with. The heads' range is cut into even
// buckets, small enough for a core's cache where keys spread evenly; every thread moves its part of the entries into
// them, then sorts buckets, as many as it gets to. A bucket that is far too large holds keys with more in common: it is
// sorted in the same way, behind that.
[[nodiscard]] entries_in_order sort_entries(const record_scan& found, const address_space& space);

}  // namespace icecore::detail
