// A set of versions, stored as a few ranges.
//
//   icecore::version_ranges lost;
//   lost.add({5, 1 << 20});
//   lost.contains(7);                                             // true
//   for (const auto& [first, end] : lost.ranges()) ...            // ascending, with gaps between them
//
// The set has at most count_max ranges. When one more is added, the set joins the two ranges with the fewest versions
// between them; these versions then belong to the set too.
// Threads: like a standard container. Cost: contains() O(log ranges), add() O(ranges).
#pragma once

#include <span>
#include <vector>

#include "icecore/options.hpp"

namespace [[gnu::visibility("default")]] icecore {

/// The versions v with first <= v < end.
struct version_range {
  version first;
  version end;
  friend bool operator==(const version_range&, const version_range&) = default;
};

class version_ranges {
 public:
  static constexpr std::size_t count_max = 54;

  /// Does nothing if the range is empty.
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
