#include "instants.hpp"

#include <algorithm>

namespace icecore::testing {
namespace {

constexpr bound always_before{std::numeric_limits<std::int64_t>::min(), {}};
constexpr bound always_behind{std::numeric_limits<std::int64_t>::max(), {}};

}  // namespace

instants::instants(const history& h, const matched_writes& writes, std::vector<version> versions)
    : h_(&h), writes_(&writes), events_(writes.events()) {
  for (const event& e : events_) versions.push_back(e.version);
  std::ranges::sort(versions);
  versions.erase(std::ranges::unique(versions).begin(), versions.end());
  groups_.reserve(versions.size());
  for (const version v : versions) groups_.push_back({v, {v, always_before, always_behind}, always_before, {}});
  for (event_number e = 0; e < events_.size(); ++e) group_of(events_[e].version).writes.push_back(e);
  list_parts();
}

void instants::seen(const key_writes& k, std::size_t state, const bound& begin, const bound& end) {
  if (state > 0) not_after(k.records[state - 1].by, end);
  if (state < k.records.size()) not_before(k.records[state].by, begin);
}

instants::group& instants::group_of(version v) { return *std::ranges::lower_bound(groups_, v, {}, &group::number); }

/// The records of each event, those of one event together.
void instants::list_parts() {
  first_part_.assign(events_.size() + 1, 0);
  for (const auto& k : writes_->keys()) {
    for (const auto& r : k.records) ++first_part_[r.by + 1];
  }
  for (std::size_t e = 0; e < events_.size(); ++e) first_part_[e + 1] += first_part_[e];
  parts_.resize(first_part_.back());
  std::vector<std::uint32_t> next(first_part_.begin(), first_part_.end() - 1);
  for (const auto& k : writes_->keys()) {
    for (std::uint32_t i = 0; i < k.records.size(); ++i) parts_[next[k.records[i].by]++] = {&k, i};
  }
}

std::span<const instants::part> instants::parts_of(event_number e) const {
  return std::span(parts_).subspan(first_part_[e], first_part_[e + 1] - first_part_[e]);
}

event_number instants::before(const part& p) const {
  return p.record == 0 ? no_event : p.key->records[p.record - 1].by;
}

event_number instants::behind(const part& p) const {
  return p.record + 1 == p.key->records.size() ? no_event : p.key->records[p.record + 1].by;
}

void instants::settle() {
  windows_.assign(events_.size(), {always_before, always_behind});
  bound from = always_before;
  for (group& g : groups_) {
    from = forward(g, from);
    raise(from, g.end.earliest);
    check(g.end, from, "the end of version " + std::to_string(g.number));
    raise(from, g.behind);
  }
  bound until = always_behind;
  for (auto g = groups_.rbegin(); g != groups_.rend(); ++g) {
    lower(until, g->end.latest);
    const bound end = until;
    for (auto e = g->writes.rbegin(); e != g->writes.rend(); ++e) {
      bound& latest = windows_[*e].second;
      latest = end;
      lower(latest, events_[*e].latest);
      for (const part& p : parts_of(*e)) {
        if (const event_number next = behind(p); next != no_event) lower(latest, windows_[next].second);
      }
      lower(until, latest);
    }
  }
}

/// Carries the lower bounds on through the writes of a version; leaves these in an order that respects their keys.
bound instants::forward(group& g, bound from) {
  g.writes = in_order(g);
  bound last = from;
  for (const event_number e : g.writes) {
    bound& earliest = windows_[e].first;
    earliest = from;
    raise(earliest, events_[e].earliest);
    for (const part& p : parts_of(e)) {
      if (const event_number previous = before(p); previous != no_event) raise(earliest, windows_[previous].first);
    }
    if (earliest.ns > events_[e].latest.ns) check(events_[e], earliest, describe_event(e));
    raise(last, earliest);
  }
  return last;
}

/// Rule 4: batches that overlap come one after the other on all their keys.
std::vector<event_number> instants::in_order(const group& g) const {
  if (g.writes.size() < 2) return g.writes;
  std::unordered_map<event_number, std::uint32_t> waiting;  // for so many of this version
  const auto of_this = [&](event_number e) { return e != no_event && events_[e].version == g.number; };
  std::vector<event_number> order;
  order.reserve(g.writes.size());
  for (const event_number e : g.writes) {
    std::uint32_t count = 0;
    for (const part& p : parts_of(e)) count += of_this(before(p)) ? 1 : 0;
    if (count == 0) {
      order.push_back(e);
    } else {
      waiting[e] = count;
    }
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const part& p : parts_of(order[i])) {
      const event_number next = behind(p);
      if (of_this(next) && --waiting[next] == 0) order.push_back(next);
    }
  }
  if (order.size() == g.writes.size()) return order;
  const auto stuck = std::ranges::find_if(g.writes, [&](event_number e) { return waiting[e] != 0; });
  throw violation("rule 4: in version " + std::to_string(g.number) +
                  " batches come in different orders on different keys; one is " + describe_event(*stuck));
}

std::string instants::describe_event(event_number e) const {
  const auto parts = parts_of(e);
  if (parts.empty()) return "the write that is the " + describe(*h_, events_[e].latest.why);
  const key_record& r = parts[0].key->records[parts[0].record];
  const written* w = writes_->of_value(r.value);
  return describe_record({r.version, r.value}) + " of " + describe_key(parts[0].key->key) +
         (w != nullptr ? ", the " + describe(*h_, w->by) : "");
}

void instants::check(const event& e, const bound& from, const std::string& what) const {
  if (from.ns <= e.latest.ns) return;
  throw violation("rule 6: no instant is left for " + what + ": it must come before the end of the " +
                  describe(*h_, e.latest.why) + ", but after the beginning of the " + describe(*h_, from.why));
}

}  // namespace icecore::testing
