#include "cluster/open/lost_versions.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace icecore::mpi {

version_ranges lost_on_any_rank(agreement& agree, int ranks, const version_ranges& mine) {
  using of_rank = std::array<version_range, version_ranges::count_max>;  // empty ranges after the last
  of_rank own{};
  std::ranges::copy(mine.ranges(), own.begin());
  std::vector<of_rank> all(static_cast<std::size_t>(ranks));
  agree.gather(own.data(), sizeof own, all.data());
  version_ranges lost;
  for (const of_rank& each : all) {
    for (const version_range& range : each) lost.add(range);
  }
  return lost;
}

}  // namespace icecore::mpi
