// What must hold after a crash at any moment of a story.
#include <algorithm>
#include <bit>

#include "story.hpp"

namespace icecore::crash {

void expectation::apply(const event& e) {
  if (e.what != event::kind::begin && e.what != event::kind::end) return;
  const std::uint64_t bit = std::uint64_t{1} << e.value;
  if (e.what == event::kind::begin) {
    begun_ |= bit;
    return;
  }
  const done_operation& done = of_.operations[e.value];
  returned_ |= bit;
  last_ = e.value;
  required_ |= bit | done.required;
  if (done.durable_point && (!durable_ || done.belongs_to >= of_.operations[*durable_].belongs_to)) {
    durable_ = e.value;
    durable_begun_ = begun_;
  }
  clock_min_ = std::max(clock_min_, done.closes ? done.belongs_to + 1 : done.belongs_to);
}

std::uint64_t expectation::covered_sum(version up_to, std::uint64_t begun) const {
  std::uint64_t sum = of_.before_sum;
  for (std::size_t k = 0; k < of_.operations.size(); ++k) {
    const done_operation& o = of_.operations[k];
    if ((begun >> k & 1) != 0 && o.belongs_to <= up_to) sum += o.sum;
  }
  return sum;
}

std::vector<std::uint64_t> expectation::allowed(crash_kind how) const {
  const auto& operations = of_.operations;
  if (is_opening()) return (how == crash_kind::kill ? of_.before_kill : of_.before_power_cut).allowed;
  if (of_.how.expires) return allowed_contents(how);
  if (of_.how.mixes) return allowed_sets();
  std::vector<std::uint64_t> sums;
  if (how == crash_kind::power_cut && !of_.how.keeps_each_write()) {
    const version durable = durable_ ? operations[*durable_].belongs_to : 0;
    sums.push_back(durable_ ? covered_sum(durable, durable_begun_) : of_.before_sum);
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const bool in_flight = ((begun_ & ~returned_) >> i & 1) != 0;
      if (in_flight && operations[i].durable_point) sums.push_back(covered_sum(operations[i].belongs_to, begun_));
      // A read may sync, of whose end nobody knows: all up to any later version may be there, but no part of that.
      const bool has_version = (begun_ >> i & 1) != 0 && operations[i].belongs_to >= std::max<version>(durable, 1);
      if (of_.how.keeps_versions() && has_version) sums.push_back(covered_sum(operations[i].belongs_to, begun_));
    }
    return sums;
  }
  std::uint64_t base = of_.before_sum;
  std::vector<std::uint64_t> open;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if ((required_ >> i & 1) != 0) {
      base += operations[i].sum;
    } else if ((begun_ >> i & 1) != 0 && operations[i].sum != 0) {
      open.push_back(operations[i].sum);
    }
  }
  for (std::uint64_t subset = 0; subset < std::uint64_t{1} << open.size(); ++subset) {
    std::uint64_t sum = base;
    for (std::size_t i = 0; i < open.size(); ++i) sum += (subset >> i & 1) != 0 ? open[i] : 0;
    sums.push_back(sum);
  }
  return sums;
}

std::vector<closed_version> expectation::closed(crash_kind how) const {
  if (of_.how.mixes) return {};
  const auto& operations = of_.operations;
  if (is_opening()) return (how == crash_kind::kill ? of_.before_kill : of_.before_power_cut).closed;
  std::vector<closed_version> all = of_.closed;
  const bool keeps_all = how == crash_kind::kill || of_.how.keeps_each_write();
  version durable = keeps_all ? version_max : 0;  // closed ones up to here are
  if (!keeps_all && durable_) {
    const done_operation& last = operations[*durable_];
    durable = last.leaves_open ? last.belongs_to - 1 : last.belongs_to;
  }
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if ((returned_ >> i & 1) == 0 || !operations[i].closes) continue;
    const version v = operations[i].belongs_to;
    bool certain = true;
    for (std::size_t k = 0; k < operations.size(); ++k) {
      const bool in_flight = ((begun_ & ~returned_) >> k & 1) != 0;
      certain = certain && !(in_flight && operations[k].belongs_to <= v && operations[k].sum != 0);
    }
    if (certain) all.push_back({v, operations[i].state, v > durable});
  }
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const bool is_over = (returned_ >> i & 1) != 0;
    if (!is_over && (begun_ >> i & 1) == 0) continue;
    for (const closed_version& since : operations[i].packed) {
      const auto then = std::ranges::find(all, since.at, &closed_version::at);
      if (then == all.end()) continue;
      if (is_over) {
        then->sum = since.sum;
        then->expired = since.expired;
      } else {
        then->or_else = {since.sum, since.expired};
      }
    }
  }
  return all;
}

std::vector<kept_query> expectation::queries() const {
  if (is_opening()) return of_.before_kill.queries;  // a power cut leaves no less of them
  std::vector<kept_query> all;
  for (std::size_t n = 0; n < of_.queries.size(); ++n) {
    kept_query q = of_.queries[n];
    for (std::size_t i = 0; i < of_.operations.size(); ++i) {
      const done_operation& o = of_.operations[i];
      if (o.query == n && (begun_ >> i & 1) != 0) q.apply(o.of_query, (returned_ >> i & 1) != 0);
      const bool may_lack = (begun_ & ~returned_) >> i & 1;
      if (may_lack && o.belongs_to <= q.at && o.sum != 0) q.answer_certain = false;
    }
    if (q.possibly) all.push_back(std::move(q));
  }
  return all;
}

std::vector<story_feed> expectation::feeds() const {
  if (is_opening()) return of_.before_kill.feeds;  // a power cut leaves no less of them
  std::vector<story_feed> all;
  for (std::size_t n = 0; n < of_.feeds.size(); ++n) {
    story_feed f = of_.feeds[n];
    for (std::size_t i = 0; i < of_.operations.size(); ++i) {
      const done_operation& o = of_.operations[i];
      if (o.feed == n && (begun_ >> i & 1) != 0) f.apply(o.of_feed, (returned_ >> i & 1) != 0);
    }
    if (f.possibly) all.push_back(std::move(f));
  }
  return all;
}

std::optional<std::size_t> expectation::operation_in_flight() const {
  const std::uint64_t in_flight = begun_ & ~returned_;
  return in_flight == 0 ? std::nullopt : std::optional<std::size_t>(std::countr_zero(in_flight));
}

std::vector<std::uint64_t> expectation::allowed_contents(crash_kind how) const {
  const auto& operations = of_.operations;
  const std::uint64_t newest = last_ ? operations[*last_].content : of_.before_sum;
  const bool keeps_all = how == crash_kind::kill || of_.how.keeps_each_write();
  std::vector<std::uint64_t> sums{keeps_all ? newest : durable_ ? operations[*durable_].content : of_.before_sum};
  const auto now = operation_in_flight();
  if (!now) return sums;
  const done_operation& o = operations[*now];
  if (keeps_all) sums.insert(sums.end(), o.between.begin(), o.between.end());
  if (!keeps_all && o.durable_point) sums.push_back(newest);  // a compaction syncs before it changes anything
  if (keeps_all || o.durable_point) {
    sums.insert(sums.end(), o.between_changes.begin(), o.between_changes.end());
    sums.push_back(o.content);
  }
  return sums;
}

std::vector<std::uint64_t> expectation::allowed_sets() const {
  // under operation durability, and not deferred
  std::vector<std::uint64_t> open;
  for (std::size_t i = 0; i < of_.operations.size(); ++i) {
    const std::uint64_t bit = std::uint64_t{1} << i;
    const bool writes = i < of_.writes->operations.size() && of_.operations[i].sum != 0;
    if ((begun_ & ~required_ & bit) != 0 && writes) open.push_back(bit);
  }
  std::vector<std::uint64_t> sets;
  for (std::uint64_t subset = 0; subset < std::uint64_t{1} << open.size(); ++subset) {
    std::uint64_t set = required_;
    for (std::size_t i = 0; i < open.size(); ++i) set |= (subset >> i & 1) != 0 ? open[i] : 0;
    sets.push_back(set);
  }
  return sets;
}

std::shared_ptr<const story_writes> expectation::writes() const {
  return is_opening() ? of_.before_kill.writes : of_.writes;
}

std::vector<version_range> expectation::expired_min() const {
  if (is_opening()) return of_.before_kill.expired_min;
  std::vector<version_range> expired = of_.before_expired;
  for (std::size_t i = 0; i < of_.operations.size(); ++i) {
    if (of_.operations[i].expired && (returned_ >> i & 1) != 0) expired = *of_.operations[i].expired;
  }
  return expired;
}

std::vector<version_range> expectation::expired_max() const {
  if (is_opening()) return of_.before_kill.expired_max;
  for (std::size_t i = 0; i < of_.operations.size(); ++i) {
    if (of_.operations[i].expired && ((begun_ & ~returned_) >> i & 1) != 0) return *of_.operations[i].expired;
  }
  return expired_min();
}

std::vector<asked_to_forget> expectation::requests() const {
  if (is_opening()) return of_.before_kill.requests;  // a power cut leaves no less of them
  std::vector<asked_to_forget> all = of_.requests;
  for (std::size_t i = 0; i < of_.operations.size(); ++i) {
    const auto& asked = of_.operations[i].forgets;
    if (asked && (returned_ >> i & 1) != 0) all.push_back(*asked);
  }
  return all;
}

std::vector<std::uint64_t> expectation::retentions() const {
  if (is_opening()) return of_.before_kill.retentions;
  if (of_.how.mixes) {  // one writer sets it
    std::vector<std::uint64_t> all{of_.before_retention};
    for (std::size_t i = 0; i < of_.operations.size(); ++i) {
      if (!of_.operations[i].sets_retention || (begun_ >> i & 1) == 0) continue;
      if ((returned_ >> i & 1) != 0) all.clear();
      all.push_back(of_.operations[i].retention);
    }
    return all;
  }
  std::vector<std::uint64_t> all{last_ ? of_.operations[*last_].retention : of_.before_retention};
  if (const auto now = operation_in_flight()) all.push_back(of_.operations[*now].retention);
  return all;
}

std::vector<std::string> expectation::gone() const {
  if (is_opening()) return of_.gone;
  if (const auto now = operation_in_flight(); now && *now != of_.opening) return of_.operations[*now].gone_amid;
  return last_ ? of_.operations[*last_].gone : of_.gone;
}

std::string expectation::in_flight() const {
  std::string text;
  for (std::size_t i = 0; i < of_.operations.size(); ++i) {
    if ((begun_ & ~returned_) >> i & 1) text += (text.empty() ? "" : ", ") + of_.operations[i].what;
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace icecore::crash
