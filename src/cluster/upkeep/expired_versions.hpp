// The versions that compactions gave up on some rank: to the cluster they are expired, whoever is asked for which key.
//
//   expired_versions gone;
//   gone.set(union_of_ranks(agree, store.expired_versions()));      // collective
//   if (const auto range = gone.find(7)) ...
//
// Threads: any; one at a time calls set(). Cost: find() is O(log ranges), and free if nothing has expired.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <utility>
#include <vector>

#include "cluster/agreement.hpp"
#include "icecore/version_ranges.hpp"

namespace icecore::mpi {

class expired_versions {
 public:
  /// Ascending ranges with gaps between them.
  void set(std::vector<version_range> all) {
    const std::unique_lock lock(mutex_);
    all_ = std::move(all);
    any_.store(!all_.empty(), std::memory_order_release);  // release: who sees it takes the lock and finds the ranges
  }
  /// The range that has the version.
  [[nodiscard]] std::optional<version_range> find(version v) const {
    if (!any_.load(std::memory_order_acquire)) return std::nullopt;  // acquire: pairs with the release above
    const std::shared_lock lock(mutex_);
    const auto after = std::ranges::upper_bound(all_, v, {}, &version_range::end);
    if (after == all_.end() || after->first > v) return std::nullopt;
    return *after;
  }

 private:
  std::atomic<bool> any_{false};
  mutable std::shared_mutex mutex_;
  std::vector<version_range> all_;
};

/// The ranges in order, those that touch or overlap as one.
[[nodiscard]] std::vector<version_range> in_order(std::vector<version_range> some);
/// Those of `some` that are in none of `others`; both ascending, with gaps.
[[nodiscard]] std::vector<version_range> without(std::span<const version_range> some,
                                                 std::span<const version_range> others);
/// What all ranks have, in order (collective). `here` is its step.
[[nodiscard]] std::vector<version_range> union_of_ranks(agreement& agree, step here,
                                                        std::span<const version_range> mine);

}  // namespace icecore::mpi
