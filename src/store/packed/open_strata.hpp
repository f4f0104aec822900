// The strata that a store's manifest names.
//
//   const std::unique_ptr<stratum::strata> packed = open_strata(pools, manifest_of(pools), 0);   // null: none
//
// Errors: errc::damaged. Cost: O(bytes of the fences); blocks are checked when they are first read.
#pragma once

#include <memory>
#include <vector>

#include "pool/manifest/manifest.hpp"
#include "stratum/strata.hpp"

namespace icecore::detail {

/// `block_cache_bytes`: options::block_cache_bytes.
[[nodiscard]] std::unique_ptr<const stratum::strata> open_strata(const pool_set& pools, const manifest& of,
                                                                 std::uint64_t block_cache_bytes);
/// The values that its extents refer to. Those of files that are missing have no bytes.
[[nodiscard]] std::vector<stratum::values_elsewhere::one> values_of(const pool_set& pools, const manifest& of);
/// One of its extents. Frames of a compressed one are inflated into `frames`; without it, each stays once it is
/// inflated. errc::damaged
[[nodiscard]] std::unique_ptr<const stratum::extent> open_extent(
    const pool_set& pools, const format::named_extent& of, std::shared_ptr<stratum::frame_cache> frames = nullptr);

}  // namespace icecore::detail
