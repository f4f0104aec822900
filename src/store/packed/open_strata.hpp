// The strata that a store's manifest names.
//
//   const std::unique_ptr<stratum::strata> packed = open_strata(pools, manifest_of(pools));   // null: none
//
// Errors: errc::damaged. Cost: O(bytes of the fences); blocks are checked when they are first read.
#pragma once

#include <memory>

#include "pool/manifest/manifest.hpp"
#include "stratum/strata.hpp"

namespace icecore::detail {

[[nodiscard]] std::unique_ptr<const stratum::strata> open_strata(const pool_set& pools, const manifest& of);
/// One of its extents. errc::damaged
[[nodiscard]] std::unique_ptr<const stratum::extent> open_extent(const pool_set& pools, const format::named_extent& of);

}  // namespace icecore::detail
