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
// Threads: kept_versions is immutable; a filter belongs to one thread. Cost: stays() O(log kept versions).
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "icecore/options.hpp"

namespace icecore::stratum {

class kept_versions {
 public:
  [[nodiscard]] static kept_versions all() { return kept_versions(); }
  /// These, in any order.
  explicit kept_versions(std::vector<version> some) : some_(std::move(some)), all_(false) { std::ranges::sort(some_); }

  [[nodiscard]] bool are_all() const noexcept { return all_; }
  [[nodiscard]] bool has(version v) const noexcept { return has_between(v, v + 1); }
  /// Whether one of the versions from `first` to before `end` is kept.
  [[nodiscard]] bool has_between(version first, version end) const noexcept {
    if (all_) return first < end;
    const auto next = std::ranges::lower_bound(some_, first);
    return next != some_.end() && *next < end;
  }

 private:
  kept_versions() = default;

  std::vector<version> some_;
  bool all_ = true;
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
