#include "store/packed/open_strata.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/raise.hpp"

namespace icecore::detail {

namespace {

/// An eighth of the machine's memory, but no more than 1 GiB.
std::uint64_t usual_block_cache_bytes() noexcept {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGESIZE);
  constexpr std::uint64_t most = std::uint64_t{1} << 30;
  if (pages <= 0 || page <= 0) return most;
  return std::min(most, static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page) / 8);
}

/// What cannot be true of extents together, whose places strata compute from their numbers; nullptr if all may.
const char* fail_of(const std::vector<format::named_extent>& all) noexcept {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool begins = i == 0 || all[i].stratum != all[i - 1].stratum;
    const std::uint32_t expected = i == 0 ? 0 : all[i - 1].stratum + (begins ? 1 : 0);
    if (all[i].stratum != expected) return "the strata are not numbered from 0 on, one after the other";
    if (begins && (all[i].flags & format::extent_goes_on) != 0) return "a stratum begins amid the records of a key";
  }
  return nullptr;
}

}  // namespace

std::vector<stratum::values_elsewhere::one> values_of(const pool_set& pools, const manifest& of) {
  std::vector<stratum::values_elsewhere::one> all;
  all.reserve(of.values.size());
  for (const format::named_value& each : of.values) {
    const link at = each.at();
    const bool is_there = each.size <= link_offset_mask && pools.contains_by_now(at, each.size);
    all.push_back({.where = {at, each.size},
                   .bytes = is_there ? pools.at(at) : nullptr,
                   .crc = each.crc,
                   .file = pools.origin(at),
                   .offset = link_offset(at)});
  }
  return all;
}

std::unique_ptr<const stratum::extent> open_extent(const pool_set& pools, const format::named_extent& of,
                                                   std::shared_ptr<stratum::frame_cache> frames) {
  const link at = of.segment + sizeof(format::segment_header);
  const std::span<const std::byte> bytes(pools.at(at), of.size);
  const bool on_device = pools.of(at).durability().medium == medium::block_device;
  auto made = std::make_unique<const stratum::extent>(stratum::extent::open(
      bytes, {.file = pools.origin(at), .offset = link_offset(at), .seed = of.seed, .on_device = on_device},
      std::move(frames)));
  if (made->media_crc() != of.header_crc || made->media_size() != of.size) {
    raise(errc::damaged, "{}: damaged at byte {} (packed records): these are not the ones that the manifest names",
          pools.origin(at), link_offset(at));
  }
  return made;
}

std::unique_ptr<const stratum::strata> open_strata(const pool_set& pools, const manifest& of,
                                                   std::uint64_t block_cache_bytes) {
  if (of.extents.empty()) return nullptr;
  if (const char* what = fail_of(of.extents)) {
    raise(errc::damaged, "{}: damaged at byte {} (manifest): {}", pools.origin(of.segment), link_offset(of.segment),
          what);
  }
  const auto frames =
      std::make_shared<stratum::frame_cache>(block_cache_bytes != 0 ? block_cache_bytes : usual_block_cache_bytes());
  std::vector<stratum::packed_extent> all;
  all.reserve(of.extents.size());
  for (const format::named_extent& each : of.extents) {
    all.push_back(
        {each.stratum, each.first, (each.flags & format::extent_goes_on) != 0, open_extent(pools, each, frames)});
  }
  return std::make_unique<const stratum::strata>(std::move(all), frames, values_of(pools, of));
}

}  // namespace icecore::detail
