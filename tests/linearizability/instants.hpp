// Whether every write and every end of a version has an instant of its own, all orders kept (rule 6); and between which
// two it lies.
//
//   instants when(h, writes, {3, 4, 9});        // all versions that anybody names
//   when.not_after(event, {returned_ns, who});  // a read that saw it
//   when.settle();                              // throws violation
//   when.earliest(event), when.latest(event)    // of the instants it may have
//
// Orders: a key's records, in their order; a version's writes, then its end, then the next version's writes; a batch is
// one event on several keys. Instants that respect a partial order exist if and only if no event's lower bound, carried
// on to all behind it, passes its upper bound.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "writes.hpp"

namespace icecore::testing {

class instants {
 public:
  instants(const history& h, const matched_writes& writes, std::vector<version> versions);

  void not_before(event_number e, const bound& b) { raise(events_[e].earliest, b); }
  void not_after(event_number e, const bound& b) { lower(events_[e].latest, b); }
  /// State s of the key was seen by a call between `begin` and `end`.
  void seen(const key_writes& k, std::size_t state, const bound& begin, const bound& end);

  /// The end of a version: no write joins it any more.
  void closed_not_before(version v, const bound& b) { raise(group_of(v).end.earliest, b); }
  void closed_not_after(version v, const bound& b) { lower(group_of(v).end.latest, b); }
  /// Whatever belongs to a version behind v has its instant not before b.
  void behind_not_before(version v, const bound& b) { raise(group_of(v).behind, b); }

  /// Finds the window of every event. Throws violation if one has none.
  void settle();
  [[nodiscard]] std::int64_t earliest(event_number e) const { return windows_[e].first.ns; }
  [[nodiscard]] std::int64_t latest(event_number e) const { return windows_[e].second.ns; }

 private:
  struct group {
    version number;
    event end;  // of the version
    bound behind{std::numeric_limits<std::int64_t>::min(), {}};
    std::vector<event_number> writes;
  };
  struct part {
    const key_writes* key;
    std::uint32_t record;
  };

  [[nodiscard]] group& group_of(version v);
  void list_parts();
  [[nodiscard]] std::span<const part> parts_of(event_number e) const;
  [[nodiscard]] event_number before(const part& p) const;
  [[nodiscard]] event_number behind(const part& p) const;
  [[nodiscard]] bound forward(group& g, bound from);
  [[nodiscard]] std::vector<event_number> in_order(const group& g) const;
  void check(const event& e, const bound& from, const std::string& what) const;
  [[nodiscard]] std::string describe_event(event_number e) const;

  const history* h_;
  const matched_writes* writes_;
  std::vector<event> events_;
  std::vector<group> groups_;  // ascending by version
  std::vector<std::uint32_t> first_part_;
  std::vector<part> parts_;
  std::vector<std::pair<bound, bound>> windows_;
};

}  // namespace icecore::testing
