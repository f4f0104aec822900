// Which closed versions a store keeps, and so which records.
//
//   const kept_versions some({40, 90});           // or kept_versions::all()
//   record_filter filter(some);
//   filter.begin_key();
//   filter.stays(95);   // true: the newest record shows what the store is now
//   filter.stays(60);   // true: version 90 shows it
//   filter.stays(50);   // false: no kept version does, since those from 50 to 59 are not kept
//   filter.stays(30);   // true: version 40 shows it
//
// A record is shown by the versions from its own to before the next newer record's. It stays if one of these is kept:
// so the newest record at or before each kept version stays, however old it is. The newest record of a key always
// stays, since the present is kept.
//
// Threads: kept_versions is immutable; a filter belongs to one thread. Cost: stays() O(log ranges of versions that are
// not kept).
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "icecore/version_ranges.hpp"

namespace icecore::stratum {

class kept_versions {
 public:
  [[nodiscard]] static kept_versions all() { return all_but({}); }
  /// All but those in these ranges, which are ascending and have gaps between them.
  [[nodiscard]] static kept_versions all_but(std::vector<version_range> expired) {
    kept_versions kept;
    kept.expired_ = std::move(expired);
    return kept;
  }
  /// These, in any order.
  explicit kept_versions(std::vector<version> some) {
    std::ranges::sort(some);
    version next = 0;
    for (const version v : some) {
      if (v > next) expired_.push_back({next, v});
      next = std::max(next, v + 1);
    }
    expired_.push_back({next, version_max + 1});
  }

  [[nodiscard]] bool are_all() const noexcept { return expired_.empty(); }
  [[nodiscard]] bool has(version v) const noexcept { return has_between(v, v + 1); }
  /// Whether one of the versions from `first` to before `end` is kept.
  [[nodiscard]] bool has_between(version first, version end) const noexcept {
    if (first >= end) return false;
    const auto found = std::ranges::upper_bound(expired_, first, {}, &version_range::end);
    return found == expired_.end() || found->first > first || found->end < end;
  }

 private:
  kept_versions() = default;

  std::vector<version_range> expired_;
};

/// Goes over the records of one key after another, the newest of each first.
class record_filter {
 public:
  explicit record_filter(const kept_versions& kept) noexcept : kept_(&kept) {}
  void begin_key() noexcept { newer_ = version_max + 1; }
  /// Whether the next older record stays. Precondition: `stamped` is less than that of the record before.
  [[nodiscard]] bool stays(version stamped) noexcept {
    const version newer = std::exchange(newer_, stamped);
    return newer > version_max || kept_->has_between(stamped, newer);
  }

 private:
  const kept_versions* kept_;
  version newer_ = version_max + 1;  // of the record before; more than any if there is none
};

}  // namespace icecore::stratum
