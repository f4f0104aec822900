// The versions that kept queries, kept feeds and holds need: a compaction does not let them expire.
//
//   std::vector<version_range> held = versions_in_use(pools, lock, newest_closed);
//
// A query needs the version that it reads, a hold the one that it names. A feed needs its place, the version before it,
// from which changes differ, and all versions behind, since it is to tell each of them. If it cannot be known what is
// held, because the list or a definition is damaged, all are.
//
// Threads: none else changes queries, feeds and holds meanwhile. Cost: O(queries, feeds and holds).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "icecore/version_ranges.hpp"
#include "pool/pool_set.hpp"
#include "pool/query/query_space.hpp"

namespace icecore::detail {

/// In any order; up to the newest closed version.
[[nodiscard]] std::vector<version_range> versions_in_use(pool_set& pools, query_lock& lock, version newest_closed);

/// What a call to hold a version leaves in the store.
struct hold_definition {
  std::string name;
  version at = 0;
  std::int64_t created_ns = 0;

  [[nodiscard]] std::vector<std::byte> encoded() const;
  /// Empty if these bytes are none of a hold.
  [[nodiscard]] static std::optional<hold_definition> decoded(std::span<const std::byte> bytes);
};

struct found_hold {
  link head;
  hold_definition what;
};
/// All that can be read and are not released, newest first. `damaged` counts those that cannot be read.
[[nodiscard]] std::vector<found_hold> holds_of(const query_space& space, std::size_t* damaged = nullptr);

}  // namespace icecore::detail
