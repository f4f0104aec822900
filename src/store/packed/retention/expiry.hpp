// Which closed versions expire when a store is compacted.
//
//   expiry_question asked{.policy = retention_of(pools), .tags = tags, .up_to = newest_closed, .now_ns = now};
//   asked.before = manifest.expired; asked.held = versions_in_use(pools);
//   manifest.expired = expired_versions(asked);
//
// Threads: pure functions. Cost: O(n log n) of tags and ranges.
// Invariants (of docs/design/0028-freezing-and-compaction.md):
//   A8. What has expired before stays expired; a version that is held does not expire. Version 0 and the newest closed
//       one never do.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "icecore/retention.hpp"
#include "icecore/version_ranges.hpp"

namespace icecore::detail {

/// A list of ranges is ascending, with gaps between them, unless something else is said.
using range_list = std::vector<version_range>;

struct expiry_question {
  retention policy;
  std::span<const tag_info> tags = {};   ///< the oldest version first
  range_list before = {};                ///< have expired already
  range_list lost = {};                  ///< power cuts took them: they do not count among the newest
  std::vector<version_range> held = {};  ///< in any order
  version up_to = 0;                     ///< the newest closed version
  std::int64_t now_ns = 0;
  std::size_t ranges_max = std::size_t{1} << 20;  ///< more are not listed: then fewer versions expire
};

[[nodiscard]] range_list expired_versions(const expiry_question& asked);

/// The ranges in order, those that touch or overlap as one.
[[nodiscard]] range_list in_order(std::vector<version_range> some);
/// The versions from `first` to before `end` that are in none of these.
[[nodiscard]] range_list between(std::span<const version_range> some, version first, version end);
[[nodiscard]] std::uint64_t versions_in(std::span<const version_range> some) noexcept;
/// The greatest version of `now` that is not in `before`, all of which is in `now`; 0: they are the same.
[[nodiscard]] version greatest_added(const range_list& before, const range_list& now) noexcept;
/// Whether one of the versions from `first` to `last` is in one of these.
[[nodiscard]] bool has_any(std::span<const version_range> some, version first, version last) noexcept;

}  // namespace icecore::detail
