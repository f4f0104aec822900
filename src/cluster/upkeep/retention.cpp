// Which versions a compaction of all ranks keeps. The rule is kept in rank 0's store, which has the tags: that store
// alone decides (compaction.cpp), and the stores of other ranks keep all. So whoever packs the store of one rank while
// the cluster is closed loses no version by a rule that looks for tags where there are none.
#include <fmt/format.h>

#include "cluster/cluster_core.hpp"

namespace icecore::mpi {
namespace {

std::int64_t digest_of(const retention& which) {
  const std::string text = fmt::format("{} {} {} {} {} {}", which.tagged, which.newest, which.younger_than.count(),
                                       which.hourly, which.daily, which.weekly);
  return static_cast<std::int64_t>(std::hash<std::string>{}(text) >> 1);
}

}  // namespace

void cluster_core::set_retention(const icecore::retention& which) {
  begin_collective();
  agree_.all([&] {
    const agreed same = agree_.on(step::retention_asked, nullptr, digest_of(which));
    if (same.least != same.greatest) {
      agree_.refuse(errc::invalid_argument, "the ranks set different retentions; all must set the same one");
    }
    agree_.on(step::retention_set, attempt([&] {
                if (rank_ == 0) store_->set_retention(which);
              }));
  });
}

icecore::retention cluster_core::retention() {
  begin_collective();
  return agree_.all([&] {
    icecore::retention kept;
    agree_.on(step::retention_read, attempt([&] {
                if (rank_ == 0) kept = store_->retention();
              }));
    agree_.broadcast(&kept, sizeof kept, 0);
    return kept;
  });
}

}  // namespace icecore::mpi
