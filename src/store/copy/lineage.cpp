#include "store/copy/lineage.hpp"

#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"
#include "base/checksum.hpp"

namespace icecore {
namespace {

constexpr link lineage_at = format::lineage_offset;  // of the first file

std::uint32_t crc_of(const format::lineage_page& page, const pool_set& pools) noexcept {
  const std::uint32_t seed = crc32c(pool_seed_of(pools.roots().read()), lineage_at);
  return crc32c(seed, &page, offsetof(format::lineage_page, crc));
}

}  // namespace

store_id id_of(const format::root& r) noexcept {
  store_id id;
  std::memcpy(id.data(), r.pool_id, id.size());
  return id;
}

const lineage::ancestor* lineage::find(const store_id& id) const noexcept {
  const auto found = std::ranges::find(ancestors, id, &ancestor::id);
  return found != ancestors.end() ? &*found : nullptr;
}

void lineage::add(const format::root& of, version open, const version_ranges& lost) {
  for (ancestor& each : ancestors) each.end = std::min(each.end, open);
  ancestors.push_back({id_of(of), open});
  // the tokens of the oldest are then those of another store
  if (ancestors.size() > format::ancestors_max) ancestors.erase(ancestors.begin());
  altered.add(lost);
}

std::span<const std::byte> lineage_bytes(const pool_set& pools) {
  if (!pools.contains(lineage_at, sizeof(format::lineage_page))) return {};
  const std::span<const std::byte> page(pools.at(lineage_at), sizeof(format::lineage_page));
  return all_zero(page.data(), page.size()) ? std::span<const std::byte>{} : page;
}

std::optional<lineage> lineage_of(const pool_set& pools) {
  lineage found;
  const std::span<const std::byte> bytes = lineage_bytes(pools);
  if (bytes.empty()) return found;
  format::lineage_page page;
  std::memcpy(&page, bytes.data(), sizeof page);
  if (page.magic != format::lineage_magic || page.crc != crc_of(page, pools)) return std::nullopt;
  if (page.count > format::ancestors_max) return std::nullopt;
  for (std::uint32_t i = 0; i < page.count; ++i) {
    auto& each = found.ancestors.emplace_back();
    std::memcpy(each.id.data(), page.ancestors[i].pool_id, each.id.size());
    each.end = page.ancestors[i].end;
  }
  for (const format::lost_versions& each : page.altered) found.altered.add({each.first, each.end});
  return found;
}

void store_lineage(const pool_set& pools, const lineage& what) {
  format::lineage_page page{};
  page.magic = format::lineage_magic;
  page.count = static_cast<std::uint32_t>(what.ancestors.size());
  for (std::size_t i = 0; i < what.ancestors.size(); ++i) {
    std::memcpy(page.ancestors[i].pool_id, what.ancestors[i].id.data(), what.ancestors[i].id.size());
    page.ancestors[i].end = what.ancestors[i].end;
  }
  std::ranges::transform(what.altered.ranges(), page.altered, [](const version_range& each) {
    return format::lost_versions{each.first, each.end};
  });
  page.crc = crc_of(page, pools);
  std::memcpy(pools.at(lineage_at), &page, sizeof page);
  pools.persist().persist(pools.at(lineage_at), sizeof page);
}

std::optional<damage> lineage_damage(const pool_set& pools) {
  if (lineage_of(pools)) return std::nullopt;
  return damage{lineage_at, "file",
                "the page that says which stores this one continues fails its checksum: tokens of these are refused",
                std::nullopt, std::nullopt};
}

}  // namespace icecore
