// Sorts the entries that a record scan found by their keys, with several threads.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "history/history.hpp"
#include "store/open/record_scan.hpp"

namespace icecore::detail {

struct entries_in_order {
  std::vector<link> entries;                        ///< ascending by key
  std::optional<std::pair<link, link>> of_one_key;  ///< two of them, if any two have the same key
};

/// All entries of the record scan, sorted by as many threads as it had. O(n log n) time, O(n) memory: 40 bytes for each
/// entry while it runs, and as many again for each level of crowded buckets, at most 8.
//
// Each entry gets a head: the 8 bytes of its key behind the prefix that all keys share. The heads' range is cut into
// even buckets, small enough for a core's cache if keys spread evenly. Every thread moves its part of the entries into
// them; then each thread sorts one bucket after the other until none is left. A bucket that is far too large holds keys
// with a longer common prefix: it is sorted in the same way, by heads behind that prefix. Within a bucket, so are many
// entries with one head. Sorts of libraries were measured: docs/design/0004-speed.md.
[[nodiscard]] entries_in_order sort_entries(const record_scan& found, const address_space& space);
/// The same for entries from elsewhere: a thread for each part.
[[nodiscard]] entries_in_order sort_entries(std::vector<std::span<const link>> parts, const address_space& space);

}  // namespace icecore::detail
