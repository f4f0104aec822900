// A set of versions, as the few ranges that it consists of.
//
//   icecore::version_ranges lost;
//   lost.add({5, 1 << 20});
//   lost.contains(7);                                             // true
//   for (const auto& [first, end] : lost.ranges()) ...            // ascending, none touches another
//
// There are at most count_max ranges: one more makes one of the two that have the fewest versions between them, which
// then are in the set too.
// Threads: as a standard container. Cost: contains() O(log ranges), add() O(ranges).
#pragma once

#include <span>
#include <vector>

#include "icecore/options.hpp"

namespace [[gnu::visibility("default")]] icecore {

/// The versions from `first` to before `end`.
struct version_range {
  version first;
  version end;
  friend bool operator==(const version_range&, const version_range&) = default;
};

class version_ranges {
 public:
  static constexpr std::size_t count_max = 54;

  /// Nothing if the range is empty.
  void add(version_range range);
  void add(const version_ranges& others);
  [[nodiscard]] bool contains(version v) const noexcept;
  [[nodiscard]] bool empty() const noexcept { return ranges_.empty(); }
  [[nodiscard]] std::span<const version_range> ranges() const noexcept { return ranges_; }

 private:
  void join_closest();

  std::vector<version_range> ranges_;
};

}  // namespace icecore
