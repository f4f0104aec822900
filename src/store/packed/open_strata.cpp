#include "store/packed/open_strata.hpp"

#include <utility>
#include <vector>

#include "base/raise.hpp"

namespace icecore::detail {

std::unique_ptr<const stratum::extent> open_extent(const pool_set& pools, const format::named_extent& of) {
  const link at = of.segment + sizeof(format::segment_header);
  auto made = std::make_unique<const stratum::extent>(
      std::span<const std::byte>(pools.at(at), of.size),
      stratum::extent_place{.file = pools.origin(at), .offset = link_offset(at), .seed = of.seed});
  if (made->header().crc != of.header_crc || made->header().size != of.size) {
    raise(errc::damaged, "{}: damaged at byte {} (packed records): these are not the ones that the manifest names",
          pools.origin(at), link_offset(at));
  }
  return made;
}

std::unique_ptr<const stratum::strata> open_strata(const pool_set& pools, const manifest& of) {
  if (of.extents.empty()) return nullptr;
  std::vector<stratum::packed_extent> all;
  for (const format::named_extent& each : of.extents) {
    all.push_back({each.stratum, each.first, each.goes_on != 0, open_extent(pools, each)});
  }
  return std::make_unique<const stratum::strata>(std::move(all));
}

}  // namespace icecore::detail
