#include "icecore/version_ranges.hpp"

#include <algorithm>

namespace icecore {

void version_ranges::add(version_range range) {
  if (range.first >= range.end) return;
  // merge all ranges that overlap or touch the new one into it
  const auto from = std::ranges::lower_bound(ranges_, range.first, {}, &version_range::end);
  auto to = from;
  for (; to != ranges_.end() && to->first <= range.end; ++to) {
    range.first = std::min(range.first, to->first);
    range.end = std::max(range.end, to->end);
  }
  ranges_.insert(ranges_.erase(from, to), range);
  if (ranges_.size() > count_max) join_closest();
}

void version_ranges::add(const version_ranges& others) {
  for (const version_range& each : others.ranges()) add(each);
}

bool version_ranges::contains(version v) const noexcept {
  const auto behind = std::ranges::upper_bound(ranges_, v, {}, &version_range::end);
  return behind != ranges_.end() && behind->first <= v;
}

void version_ranges::join_closest() {
  const auto between = [](const version_range& a, const version_range& b) { return b.first - a.end; };
  auto closest = ranges_.begin();
  for (auto each = ranges_.begin(); std::next(each) != ranges_.end(); ++each) {
    if (between(*each, *std::next(each)) < between(*closest, *std::next(closest))) closest = each;
  }
  closest->end = std::next(closest)->end;
  ranges_.erase(std::next(closest));
}

}  // namespace icecore
