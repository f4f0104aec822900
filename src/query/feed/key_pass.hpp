// Finds the oldest changes in a range of versions by a pass over all keys: for feeds that begin, or are far behind.
//
// Threads: pure. Cost: O(keys + changes), with the index `hash` O(n log n); memory for 2 * `wanted` changes, or twice
// those of one version if that has more.
#pragma once

#include <algorithm>
#include <vector>

#include "query/changes/change.hpp"
#include "store/read/sorted_keys.hpp"

namespace icecore::detail {

/// Changes of whole versions, by version, then key, then the oldest first.
struct whole_versions {
  std::vector<change_at> changes;
  version up_to = 0;  ///< all versions up to this one are told
};

/// Drops versions at the end until about `wanted` changes are left, but at least one version.
inline void keep_oldest(whole_versions& found, std::size_t wanted) {
  if (found.changes.size() <= wanted) return;
  std::vector<version> versions;
  versions.reserve(found.changes.size());
  for (const change_at& c : found.changes) versions.push_back(c.at);
  const auto cut = versions.begin() + static_cast<std::ptrdiff_t>(wanted);
  std::ranges::nth_element(versions, cut);
  const bool some_before = std::any_of(versions.begin(), cut, [&](version v) { return v < *cut; });
  found.up_to = some_before ? *cut - 1 : *cut;
  std::erase_if(found.changes, [&](const change_at& c) { return c.at > found.up_to; });
}

/// The changes in (after, up_to], or the oldest of them: about `wanted`.
template <class Engine>
[[nodiscard]] whole_versions pass_over_keys(const Engine& engine, version after, version up_to, std::size_t wanted) {
  whole_versions found{{}, up_to};
  std::size_t drop_at = 2 * wanted;
  std::shared_ptr<const sorted_keys> kept;
  const index::ordered_links& links = in_key_order(engine, kept);
  for_each_block(engine, links, scan_bounds(), [&](const walked_entries& entries) {
    for (const link entry : entries) append_changes(engine, entry, after, found.up_to, found.changes);
    if (found.changes.size() > drop_at) {
      keep_oldest(found, wanted);
      drop_at = 2 * std::max(wanted, found.changes.size());
    }
    return true;
  });
  keep_oldest(found, wanted);
  std::ranges::stable_sort(found.changes, {}, &change_at::at);  // keys stay in their order
  return found;
}

}  // namespace icecore::detail
