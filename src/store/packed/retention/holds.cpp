#include "store/packed/retention/holds.hpp"

#include "pool/query/feed_places.hpp"
#include "pool/query/query_space.hpp"

namespace icecore::detail {
namespace {

/// The oldest version that the feed needs; all of them if its places are damaged.
version needed_by_feed(const query_space& space, link head) {
  const auto newest = feed_places(space, head).newest();
  if (!newest) return 0;
  const bool tells_at = (newest->line.flags & format::feed_in_snapshot) != 0;
  // A compaction makes it tell its version from the first change on again.
  return tells_at || newest->line.at == 0 ? newest->line.at : newest->line.at - 1;
}

}  // namespace

std::vector<version_range> versions_in_use(pool_set& pools, process_lock& lock, version newest_closed) {
  std::vector<version_range> held;
  const query_space space(pools, lock);
  if (!space.ever_used()) return held;
  const version end = newest_closed + 1;
  bool all_are_known = true;
  for (const link head : space.heads([&](link, const std::string&) { all_are_known = false; })) {
    if (feed_places::is_feed(space, head)) {
      held.push_back({needed_by_feed(space, head), end});
    } else if (const auto definition = space.definition_of(head)) {
      const version reads = title_of(*definition).version;
      held.push_back({reads, reads + 1});
    }
  }
  if (!all_are_known) held.push_back({0, end});  // the list of queries is damaged
  return held;
}

}  // namespace icecore::detail
