#include "checker.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "instants.hpp"
#include "writes.hpp"

namespace icecore::testing {
namespace {

/// All versions that anybody names, and the one before each: whose ends are instants.
[[nodiscard]] std::vector<version> versions_of(const history& h) {
  std::vector<version> all;
  const auto add = [&](version v) {
    all.push_back(v);
    if (v > 0) all.push_back(v - 1);
  };
  for_each_operation(h, [&](place_of_call, const operation& o) { add(o.version); });
  for (const life& l : h.lives) {
    for (const inspection& i : l.inspections) {
      add(i.clock);
      for (const found_tag& t : i.tags) add(t.version);
      for (const found_digest& d : i.digests) add(d.version);
    }
  }
  return all;
}

class checker {
 public:
  explicit checker(const history& h) : h_(&h) {}

  [[nodiscard]] verdict run() {
    verdict v;
    try {
      check_times(v);
      const matched_writes writes(*h_);
      v.in_flight_kept = writes.in_flight_kept();
      instants when(*h_, writes, versions_of(*h_));
      bound_by_tags(when);
      bound_by_inspections(when);
      bound_by_reads(writes, when);
      when.settle();
      check_absences(writes, when);
      check_digests(writes);
    } catch (const violation& found) {
      v.violation = found.what();
    }
    return v;
  }

 private:
  void check_times(verdict& v) const;
  void bound_by_tags(instants& when);
  void check_tag_list(std::uint32_t life, std::uint32_t number, instants& when);
  void check_skipped_versions(std::uint32_t life, version from, version to, std::uint32_t by_openings) const;
  void bound_by_inspections(instants& when);
  void bound_by_reads(const matched_writes& writes, instants& when);
  void bound_by_read(const matched_writes& writes, instants& when, place_of_call p, const operation& o);
  void see_value(const matched_writes& writes, instants& when, place_of_call p, const operation& o);
  void see_history(const matched_writes& writes, instants& when, place_of_call p, const operation& o) const;
  void see_version(const matched_writes& writes, place_of_call p, const operation& o) const;
  void check_absences(const matched_writes& writes, const instants& when) const;
  void check_digests(const matched_writes& writes);

  /// A call that saw a key not being there.
  struct absence {
    const key_writes* key;
    std::int64_t begin_ns;
    std::int64_t end_ns;
    version at;  // it belongs to; 0: unknown
    place_of_call by;
  };
  [[nodiscard]] static bool possible(const absence& a, const std::vector<std::uint32_t>& last_absent,
                                     const instants& when);

  /// A scan, and what it saw.
  struct scanned {
    version at;
    std::uint32_t group;
    std::uint64_t digest;
    place_of_call by;
  };

  const history* h_;
  std::vector<absence> absences_;
  std::vector<scanned> scans_;
  std::map<std::uint64_t, version> tags_;  // that inspections have found, by name
};

void checker::check_times(verdict& v) const {
  for (std::uint32_t l = 0; l < h_->lives.size(); ++l) {
    for (std::uint32_t c = 0; c < h_->lives[l].clients.size(); ++c) {
      std::int64_t last = l == 0 ? 0 : h_->lives[l - 1].end_ns;
      bool interrupted = false;
      const auto& client = h_->lives[l].clients[c];
      for (std::uint32_t i = 0; i < client.size(); ++i) {
        const operation& o = client[i];
        if (o.what == call::batch_insert || o.what == call::batch_remove) continue;
        const std::int64_t end = end_of(*h_, {l, c, i});
        if (interrupted || o.invoke_ns < last || end < o.invoke_ns || end > h_->lives[l].end_ns) {
          throw violation("the history is no sound one: no client can have called so: " + describe(*h_, {l, c, i}));
        }
        last = end;
        interrupted = o.return_ns == 0;
        ++(interrupted ? v.in_flight : v.operations);
        if (!interrupted && (o.what == call::insert || o.what == call::remove || o.what == call::batch)) ++v.writes;
      }
    }
  }
}

// ---- Rules 8 and 10: tags, the clock, inspections ----

void checker::bound_by_tags(instants& when) {
  std::map<version, place_of_call> tagged;
  for_each_operation(*h_, [&](place_of_call p, const operation& o) {
    if (o.return_ns == 0) return;
    const bound begin{o.invoke_ns, p};
    const bound end{o.return_ns, p};
    switch (o.what) {
      case call::tag: {
        const auto [other, first] = tagged.try_emplace(o.version, p);
        if (!first) {
          throw violation("rule 10: two tags closed one version: the " + describe(*h_, p) + ", and the " +
                          describe(*h_, other->second));
        }
        when.closed_not_before(o.version, begin);
        when.closed_not_after(o.version, end);
        break;
      }
      case call::latest:
        when.closed_not_after(o.version, end);
        when.behind_not_before(o.version, begin);
        break;
      case call::clock:
        when.closed_not_before(o.version, begin);
        if (o.version > 0) when.closed_not_after(o.version - 1, end);
        break;
      case call::find_at:
      case call::digest_at:
        when.closed_not_after(o.version, end);
        break;
      default:
        break;
    }
  });
}

void checker::bound_by_inspections(instants& when) {
  version clock = 1;
  for (std::uint32_t l = 0; l < h_->lives.size(); ++l) {
    const auto& inspections = h_->lives[l].inspections;
    for (std::uint32_t i = 0; i < inspections.size(); ++i) {
      const inspection& found = inspections[i];
      const place_of_call here{l, place_of_call::an_inspection, i};
      if (found.clock < clock) {
        throw violation("rule 10: the clock is " + std::to_string(found.clock) + " in " + describe(*h_, here) +
                        ", and was " + std::to_string(clock) + " before");
      }
      when.closed_not_before(found.clock, {found.begin_ns, here});
      when.closed_not_after(found.clock - 1, {found.end_ns, here});
      check_skipped_versions(l, clock, found.clock, found.closed_by_openings);
      clock = found.clock;
      check_tag_list(l, i, when);
      for (const found_digest& d : found.digests) scans_.push_back({d.version, d.group, d.digest, here});
    }
  }
}

/// Each version that was closed in this life was closed by somebody.
void checker::check_skipped_versions(std::uint32_t life, version from, version to, std::uint32_t by_openings) const {
  std::set<version> reported;
  std::uint64_t unreported = by_openings;
  for (const auto& client : h_->lives[life].clients) {
    for (const operation& o : client) {
      if (o.what == call::compact) return;
      const bool tells = o.what == call::tag || o.what == call::latest;
      if (!tells && o.what != call::sync) continue;
      if (o.return_ns == 0 || !tells) {
        ++unreported;
      } else if (o.version >= from && o.version < to) {
        reported.insert(o.version);
      }
    }
  }
  if (to - from > reported.size() + unreported) {
    throw violation("rule 10: life " + std::to_string(life) + " moved the clock from " + std::to_string(from) + " to " +
                    std::to_string(to) + ", but only " + std::to_string(reported.size()) + " closings returned and " +
                    std::to_string(unreported) + " more may have closed a version");
  }
}

void checker::check_tag_list(std::uint32_t life, std::uint32_t number, instants& when) {
  const inspection& found = h_->lives[life].inspections[number];
  const place_of_call here{life, place_of_call::an_inspection, number};
  std::map<std::uint64_t, version> now;
  version last = 0;
  for (const found_tag& t : found.tags) {
    if (t.version <= last || t.version >= found.clock || !now.try_emplace(t.name, t.version).second) {
      throw violation("rule 10: tag " + std::to_string(t.name) + " on version " + std::to_string(t.version) +
                      " is out of order, twice or on no closed version in " + describe(*h_, here));
    }
    last = t.version;
  }
  auto expected = tags_;
  if (number == 0) {
    const auto& clients = h_->lives[life].clients;
    for (std::uint32_t c = 0; c < clients.size(); ++c) {
      for (std::uint32_t i = 0; i < clients[c].size(); ++i) {
        const operation& o = clients[c][i];
        if (o.what != call::tag || o.value == 0) continue;
        if (o.return_ns != 0) {
          expected[o.value] = o.version;
        } else if (const auto kept = now.find(o.value); kept != now.end()) {
          expected[o.value] = kept->second;
          when.closed_not_before(kept->second, {o.invoke_ns, {life, c, i}});
          when.closed_not_after(kept->second, {end_of(*h_, {life, c, i}), {life, c, i}});
        }
      }
    }
  }
  for (const auto& [name, at] : expected) {
    const auto kept = now.find(name);
    if (kept == now.end() || kept->second != at) {
      throw violation("rule 1: tag " + std::to_string(name) + " of version " + std::to_string(at) +
                      " is lost or on another version in " + describe(*h_, here));
    }
  }
  if (now.size() != expected.size()) {
    throw violation("rule 3: " + std::to_string(now.size() - expected.size()) +
                    " tags that nobody made, or that were not there before, are found in " + describe(*h_, here));
  }
  tags_ = std::move(now);
}

// ---- Rules 7 and 8: reads ----

void checker::bound_by_reads(const matched_writes& writes, instants& when) {
  for_each_operation(*h_, [&](place_of_call p, const operation& o) {
    if (o.return_ns != 0) bound_by_read(writes, when, p, o);
  });
}

void checker::bound_by_read(const matched_writes& writes, instants& when, place_of_call p, const operation& o) {
  switch (o.what) {
    case call::find:
      return see_value(writes, when, p, o);
    case call::remove:
      if (o.version == 0) see_value(writes, when, p, o);
      return;
    case call::history:
      return see_history(writes, when, p, o);
    case call::find_at:
      return see_version(writes, p, o);
    case call::digest_at:
      scans_.push_back({o.version, o.key, o.value, p});
      return;
    default:
      return;
  }
}

void checker::see_value(const matched_writes& writes, instants& when, place_of_call p, const operation& o) {
  const key_writes* k = writes.of_key(o.key);
  if (o.what == call::remove || o.value == 0) {
    if (k != nullptr) absences_.push_back({k, o.invoke_ns, o.return_ns, 0, p});
    return;
  }
  const written* w = writes.of_value(o.value);
  if (w == nullptr) throw violation("rule 3: nobody wrote what was read by the " + describe(*h_, p));
  if (w->record == written::not_found) {
    throw violation("rule 3: what was read is lost: it was read by the " + describe(*h_, p) + " and written by the " +
                    describe(*h_, w->by));
  }
  if (k == nullptr || k != &writes.keys()[w->key_index]) {
    throw violation("rule 3: what was written to another key was read by the " + describe(*h_, p));
  }
  when.seen(*k, w->record + 1, {o.invoke_ns, p}, {o.return_ns, p});
}

void checker::see_history(const matched_writes& writes, instants& when, place_of_call p, const operation& o) const {
  static const key_writes none{};
  const key_writes* k = writes.of_key(o.key);
  if (k == nullptr) k = &none;
  records_digest digest;
  for (std::size_t i = 0; i < std::min<std::size_t>(o.count, k->records.size()); ++i) {
    digest.add_newer({k->records[i].version, k->records[i].value});
  }
  if (o.count > k->records.size() || digest.sum != o.value) {
    throw violation("rule 7: other records than there are now, of which there are " +
                    std::to_string(k->records.size()) + ", were seen by the " + describe(*h_, p));
  }
  when.seen(*k, o.count, {o.invoke_ns, p}, {o.return_ns, p});
}

void checker::see_version(const matched_writes& writes, place_of_call p, const operation& o) const {
  const key_writes* k = writes.of_key(o.key);
  const std::uint64_t value = k == nullptr ? 0 : k->value_of_state(k->state_at(o.version));
  if (value == o.value) return;
  throw violation("rule 8: the version holds " + (value == 0 ? "nothing" : "value " + std::to_string(value)) +
                  " there, not what was seen by the " + describe(*h_, p));
}

// ---- Rule 7: what was not there ----

bool checker::possible(const absence& a, const std::vector<std::uint32_t>& last_absent, const instants& when) {
  const auto& records = a.key->records;
  // State s lasts from record s-1's instant to record s's. Both bounds grow with s.
  const auto begun = std::ranges::partition_point(records, [&](const key_record& r) {
    return when.earliest(r.by) <= a.end_ns && (a.at == 0 || r.version <= a.at);
  });
  const auto over = std::ranges::partition_point(
      records, [&](const key_record& r) { return when.latest(r.by) < a.begin_ns || (a.at != 0 && r.version < a.at); });
  const auto last = static_cast<std::size_t>(begun - records.begin());
  const auto first = static_cast<std::size_t>(over - records.begin());
  return first <= last && last_absent[last] != written::not_found && last_absent[last] >= first;
}

void checker::check_absences(const matched_writes& writes, const instants& when) const {
  std::vector<absence> all = absences_;
  for (const auto& b : writes.batched_removals()) {
    const key_writes* k = writes.of_key(b.key);
    const place_of_call batch = writes.events()[b.by].earliest.why;
    if (k != nullptr) all.push_back({k, when.earliest(b.by), when.latest(b.by), writes.events()[b.by].version, batch});
  }
  std::ranges::sort(all, {}, [](const absence& a) { return a.key; });
  const key_writes* key = nullptr;
  std::vector<std::uint32_t> last_absent;  // at or before each state
  for (const absence& a : all) {
    if (a.key != key) {
      key = a.key;
      last_absent.assign(1, 0);
      for (std::uint32_t i = 0; i < key->records.size(); ++i) {
        last_absent.push_back(key->records[i].value == 0 ? i + 1 : last_absent.back());
      }
    }
    if (!possible(a, last_absent, when)) {
      throw violation("rule 7: " + describe_key(key->key) + " was there all the time of the " + describe(*h_, a.by));
    }
  }
}

// ---- Rule 8: scans, against the replay of all writes in the order of their versions ----

void checker::check_digests(const matched_writes& writes) {
  struct write {
    version at;
    std::uint32_t key;
    std::uint64_t before;
    std::uint64_t after;
  };
  std::vector<write> all;
  for (const key_writes& k : writes.keys()) {
    for (std::size_t i = 0; i < k.records.size(); ++i) {
      all.push_back({k.records[i].version, k.key, k.value_of_state(i), k.records[i].value});
    }
  }
  std::ranges::sort(all, {}, &write::at);
  std::ranges::sort(scans_, {}, &scanned::at);
  std::map<std::uint32_t, std::uint64_t> digests;
  std::size_t next = 0;
  for (const scanned& s : scans_) {
    for (; next < all.size() && all[next].at <= s.at; ++next) {
      const write& w = all[next];
      const std::uint64_t change =
          (w.after == 0 ? 0 : digest_of(w.key, w.after)) - (w.before == 0 ? 0 : digest_of(w.key, w.before));
      digests[group_of(w.key)] += change;
      digests[all_groups] += change;
    }
    if (digests[s.group] != s.digest) {
      throw violation("rule 8: the replay of all writes up to version " + std::to_string(s.at) +
                      " gives another content of group " + std::to_string(s.group) + " than was seen by the " +
                      describe(*h_, s.by));
    }
  }
}

}  // namespace

verdict check(const history& h) { return checker(h).run(); }

}  // namespace icecore::testing
