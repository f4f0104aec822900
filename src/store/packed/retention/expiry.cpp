#include "store/packed/retention/expiry.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace icecore::detail {
namespace {

constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::int64_t hour_ns = 3600 * second_ns;
constexpr std::int64_t day_ns = 24 * hour_ns;

[[nodiscard]] constexpr std::int64_t floor_of(std::int64_t time_ns, std::int64_t unit_ns) noexcept {
  return time_ns / unit_ns - (time_ns % unit_ns < 0 ? 1 : 0);
}
[[nodiscard]] std::int64_t hour_of(std::int64_t time_ns) noexcept { return floor_of(time_ns, hour_ns); }
[[nodiscard]] std::int64_t day_of(std::int64_t time_ns) noexcept { return floor_of(time_ns, day_ns); }
/// 1970-01-01 was a Thursday.
[[nodiscard]] std::int64_t week_of(std::int64_t time_ns) noexcept { return floor_of(time_ns + 3 * day_ns, 7 * day_ns); }

[[nodiscard]] version_range just(version v) noexcept { return {v, v + 1}; }

/// Collects what is kept.
class keeper {
 public:
  explicit keeper(const expiry_question& asked) : asked_(&asked) {
    std::vector<version_range> gone = asked.before;
    gone.insert(gone.end(), asked.lost.begin(), asked.lost.end());
    gone_ = in_order(std::move(gone));
  }

  [[nodiscard]] range_list kept() {
    const retention& policy = asked_->policy;
    kept_ = asked_->held;
    kept_.push_back(just(asked_->up_to));
    if (policy.keeps_all()) kept_.push_back({0, asked_->up_to + 1});
    if (policy.tagged) {
      for (const tag_info& tag : asked_->tags) kept_.push_back(just(tag.version));
    }
    keep_newest(policy.newest);
    if (policy.younger_than.count() > 0) keep_younger_than(policy.younger_than.count());
    keep_thinned(policy.hourly, hour_of);
    keep_thinned(policy.daily, day_of);
    keep_thinned(policy.weekly, week_of);
    return in_order(std::move(kept_));
  }

 private:
  void keep_newest(std::uint64_t count) {
    const range_list readable = between(gone_, 1, asked_->up_to + 1);
    for (auto each = readable.rbegin(); count > 0 && each != readable.rend(); ++each) {
      const std::uint64_t here = std::min<std::uint64_t>(count, each->end - each->first);
      kept_.push_back({each->end - here, each->end});
      count -= here;
    }
  }
  /// A version is as old as the first tag from it on.
  void keep_younger_than(std::int64_t seconds) {
    const std::int64_t most = asked_->now_ns / second_ns;  // so that the product does not overflow
    const std::int64_t least_ns = seconds > most ? 0 : asked_->now_ns - seconds * second_ns;
    version next = 0;
    for (const tag_info& tag : asked_->tags) {
      if (tag.time_ns >= least_ns) kept_.push_back({next, tag.version + 1});
      next = tag.version + 1;
    }
    kept_.push_back({next, std::max(next, asked_->up_to + 1)});
  }
  /// Of each of the newest `count` periods that have a tag the newest one.
  template <class PeriodOf>
  void keep_thinned(std::uint32_t count, const PeriodOf& period_of) {
    if (count == 0) return;
    if (newest_first_.empty()) {
      for (const tag_info& tag : asked_->tags) {
        if (!has_any(gone_, tag.version, tag.version)) newest_first_.push_back({tag.time_ns, tag.version});
      }
      std::ranges::sort(newest_first_, [](const timed& a, const timed& b) {
        return a.time_ns != b.time_ns ? a.time_ns > b.time_ns : a.tagged > b.tagged;
      });
    }
    std::optional<std::int64_t> period;
    for (const timed& tag : newest_first_) {
      if (period == period_of(tag.time_ns)) continue;
      if (count-- == 0) return;
      period = period_of(tag.time_ns);
      kept_.push_back(just(tag.tagged));
    }
  }

  struct timed {
    std::int64_t time_ns;
    version tagged;
  };
  const expiry_question* asked_;
  range_list gone_;
  std::vector<version_range> kept_;
  std::vector<timed> newest_first_;
};

[[nodiscard]] range_list both(const range_list& some, std::span<const version_range> others) {
  std::vector<version_range> all = some;
  all.insert(all.end(), others.begin(), others.end());
  return in_order(std::move(all));
}

}  // namespace

range_list in_order(std::vector<version_range> some) {
  std::erase_if(some, [](const version_range& each) { return each.first >= each.end; });
  std::ranges::sort(some, {}, &version_range::first);
  range_list joined;
  for (const version_range& each : some) {
    if (!joined.empty() && each.first <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, each.end);
    } else {
      joined.push_back(each);
    }
  }
  return joined;
}

range_list between(std::span<const version_range> some, version first, version end) {
  range_list gaps;
  for (const version_range& each : some) {
    if (each.first > first) gaps.push_back({first, std::min(each.first, end)});
    first = std::max(first, each.end);
    if (first >= end) break;
  }
  gaps.push_back({first, std::max(first, end)});
  return in_order(std::move(gaps));
}

std::uint64_t versions_in(std::span<const version_range> some) noexcept {
  std::uint64_t count = 0;
  for (const version_range& each : some) count += each.end - each.first;
  return count;
}

version greatest_added(const range_list& before, const range_list& now) noexcept {
  auto old = before.rbegin();
  for (auto each = now.rbegin(); each != now.rend(); ++each, ++old) {
    if (old == before.rend() || old->end != each->end) return each->end - 1;
    if (old->first != each->first) return old->first - 1;
  }
  return 0;
}

bool has_any(std::span<const version_range> some, version first, version last) noexcept {
  const auto found = std::ranges::upper_bound(some, first, {}, &version_range::end);
  return found != some.end() && found->first <= last;
}

range_list expired_versions(const expiry_question& asked) {
  if (asked.up_to == 0) return asked.before;
  const range_list kept = keeper(asked).kept();
  range_list doomed = between(kept, 1, asked.up_to + 1);
  range_list expired = both(asked.before, doomed);
  if (expired.size() <= asked.ranges_max) return expired;
  // Those of the fewest versions stay, so that the list keeps its bound.
  std::ranges::sort(doomed, [](const version_range& a, const version_range& b) {
    return a.end - a.first != b.end - b.first ? a.end - a.first > b.end - b.first : a.first > b.first;
  });
  const std::size_t too_many = expired.size() - asked.ranges_max;
  doomed.resize(doomed.size() - std::min(doomed.size(), too_many));
  expired = both(asked.before, doomed);
  return expired.size() <= asked.ranges_max ? expired : asked.before;
}

}  // namespace icecore::detail
