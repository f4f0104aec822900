#include "cluster/upkeep/expired_versions.hpp"

namespace icecore::mpi {

std::vector<version_range> in_order(std::vector<version_range> some) {
  std::erase_if(some, [](const version_range& each) { return each.first >= each.end; });
  std::ranges::sort(some, {}, &version_range::first);
  std::vector<version_range> all;
  for (const version_range& each : some) {
    if (!all.empty() && each.first <= all.back().end) {
      all.back().end = std::max(all.back().end, each.end);
    } else {
      all.push_back(each);
    }
  }
  return all;
}

std::vector<version_range> without(std::span<const version_range> some, std::span<const version_range> others) {
  std::vector<version_range> left;
  for (version_range each : some) {
    for (const version_range& other : others) {
      if (other.end <= each.first || each.end <= other.first) continue;
      if (each.first < other.first) left.push_back({each.first, other.first});
      each.first = std::min(each.end, other.end);
    }
    if (each.first < each.end) left.push_back(each);
  }
  return left;
}

/// Ranks have different numbers of ranges: each contributes as many as the most, the rest of them empty.
std::vector<version_range> union_of_ranks(agreement& agree, step here, std::span<const version_range> mine) {
  const auto most = static_cast<std::size_t>(agree.on(here, nullptr, static_cast<std::int64_t>(mine.size())).greatest);
  if (most == 0) return {};
  std::vector<version_range> own;
  std::vector<version_range> all;
  agree.on(here, attempt([&] {
             own.assign(mine.begin(), mine.end());
             own.resize(most);
             all.resize(most * static_cast<std::size_t>(agree.ranks().size()));
           }));
  agree.gather(own.data(), static_cast<int>(most * sizeof(version_range)), all.data());
  return in_order(std::move(all));
}

}  // namespace icecore::mpi
