#include "writes.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace icecore::testing {

std::size_t key_writes::state_at(version v) const {
  const auto newer = std::ranges::upper_bound(records, v, {}, &key_record::version);
  return static_cast<std::size_t>(newer - records.begin());
}

matched_writes::matched_writes(const history& h) : h_(&h) {
  list_values();
  assemble_keys();
  match_inserts();
  match_removals();
}

const key_writes* matched_writes::of_key(std::uint32_t key) const {
  const auto place = key_index_.find(key);
  return place == key_index_.end() ? nullptr : &keys_[place->second];
}

const written* matched_writes::of_value(std::uint64_t value) const {
  const auto place = values_.find(value);
  return place == values_.end() ? nullptr : &place->second;
}

key_writes& matched_writes::key(std::uint32_t number) {
  const auto [place, fresh] = key_index_.try_emplace(number, static_cast<std::uint32_t>(keys_.size()));
  if (fresh) keys_.push_back({number, {}});
  return keys_[place->second];
}

event_number matched_writes::new_event(version at, place_of_call by) {
  const operation& o = operation_at(*h_, by);
  events_.push_back({at, {o.invoke_ns, by}, {end_of(*h_, by), by}});
  if (o.return_ns == 0) ++in_flight_kept_;
  return static_cast<event_number>(events_.size() - 1);
}

void matched_writes::list_values() {
  std::size_t count = 0;
  const auto writes_value = [](const operation& o) { return o.what == call::insert || o.what == call::batch_insert; };
  for_each_operation(*h_, [&](place_of_call, const operation& o) { count += writes_value(o) ? 1 : 0; });
  values_.reserve(count);
  for_each_operation(*h_, [&](place_of_call p, const operation& o) {
    if (!writes_value(o)) return;
    if (o.value == 0 || !values_.try_emplace(o.value, written{.by = p}).second) {
      throw violation("the history is no sound one: two operations write value " + std::to_string(o.value) +
                      ", or it is 0; one is the " + describe(*h_, p));
    }
  });
}

// ---- Rules 2, 3 and 5: what the inspections found ----

void matched_writes::assemble_keys() {
  for (std::uint32_t l = 0; l < h_->lives.size(); ++l) {
    const auto& inspections = h_->lives[l].inspections;
    for (std::size_t i = 0; i < inspections.size(); ++i) {
      auto known_keys = std::ranges::count_if(keys_, [](const key_writes& k) { return !k.records.empty(); });
      for (const found_key& found : inspections[i].keys) {
        if (i > 0 && !found.more.empty()) {
          throw violation("rule 2: " + describe_key(found.key) + " has " + describe_record(found.more.front()) +
                          " since inspection " + std::to_string(i) + " after life " + std::to_string(l) +
                          ", though nobody has written since the inspection before");
        }
        if (const auto* k = of_key(found.key); k != nullptr && !k->records.empty()) --known_keys;
        append(l, found);
      }
      if (known_keys != 0) {
        throw violation("rule 1: inspection " + std::to_string(i) + " after life " + std::to_string(l) + " misses " +
                        std::to_string(known_keys) + " keys with all their records, which an earlier one found");
      }
    }
  }
}

void matched_writes::append(std::uint32_t life, const found_key& found) {
  key_writes& k = key(found.key);
  if (found.known != k.records.size()) {
    const std::size_t first = std::min<std::size_t>(found.known, k.records.size());
    const std::string was = first < k.records.size()
                                ? describe_record({k.records[first].version, k.records[first].value})
                                : std::string("the end");
    throw violation("rule 5: record " + std::to_string(first) + " of " + describe_key(found.key) + " was " + was +
                    " after an earlier life, and is " +
                    (found.more.empty() ? "missing" : describe_record(found.more.front())) + " after life " +
                    std::to_string(life));
  }
  for (const found_record& r : found.more) {
    if (!k.records.empty() && k.records.back().version > r.version) {
      throw violation("rule 5: " + describe_key(found.key) + " has " + describe_record(r) + " behind one in version " +
                      std::to_string(k.records.back().version));
    }
    if (r.value == 0 && (k.records.empty() || k.records.back().value == 0)) {
      throw violation("rule 9: " + describe_key(found.key) + " has " + describe_record(r) + " though it was not there");
    }
    if (r.value != 0) {
      const auto place = values_.find(r.value);
      if (place == values_.end()) {
        throw violation("rule 3: " + describe_key(found.key) + " has " + describe_record(r) + ", which nobody wrote");
      }
      written& w = place->second;
      const operation& o = operation_at(*h_, w.by);
      if (o.key != found.key) {
        throw violation("rule 3: " + describe_key(found.key) +
                        " has what was written to another key: " + describe(*h_, w.by));
      }
      if (w.record != written::not_found) {
        throw violation("rule 1: " + describe_key(found.key) + " has twice the " + describe(*h_, w.by));
      }
      if (w.by.life != life) {
        throw violation("rule 2: after life " + std::to_string(life) +
                        " there is, and was not after its own life, the " + describe(*h_, w.by));
      }
      w.key_index = key_index_.at(found.key);
      w.record = static_cast<std::uint32_t>(k.records.size());
    }
    k.records.push_back({r.version, r.value, life});
  }
}

// ---- Rules 1 and 4: inserts and batches ----

void matched_writes::match_inserts() {
  for_each_operation(*h_, [&](place_of_call p, const operation& o) {
    if (o.what == call::insert) match_insert(p);
    if (o.what == call::batch) match_batch(p);
  });
}

void matched_writes::match_insert(place_of_call insert) {
  const operation& o = operation_at(*h_, insert);
  const written& w = values_.at(o.value);
  if (w.record == written::not_found) {
    if (o.return_ns == 0) return;
    throw violation("rule 1: an acknowledged write is lost: " + describe(*h_, insert));
  }
  key_record& r = keys_[w.key_index].records[w.record];
  if (o.return_ns != 0 && r.version != o.version) {
    throw violation("rule 1: found in version " + std::to_string(r.version) + ": " + describe(*h_, insert));
  }
  r.by = new_event(r.version, insert);
}

void matched_writes::match_batch(place_of_call batch) {
  const operation& o = operation_at(*h_, batch);
  const auto& client = h_->lives[batch.life].clients[batch.client];
  if (batch.index + o.count >= client.size()) {
    throw violation("the history is no sound one: parts are missing of the " + describe(*h_, batch));
  }
  const auto part = [&](std::uint32_t i) { return place_of_call{batch.life, batch.client, batch.index + 1 + i}; };
  std::uint32_t inserts = 0;
  std::uint32_t found = 0;
  version at = o.version;
  event_number by = no_event;
  for (std::uint32_t i = 0; i < o.count; ++i) {
    const operation& p = operation_at(*h_, part(i));
    if (p.what != call::batch_insert) continue;
    ++inserts;
    const written& w = values_.at(p.value);
    if (w.record == written::not_found) continue;
    key_record& r = keys_[w.key_index].records[w.record];
    if (++found == 1) {
      if (o.return_ns == 0) at = r.version;
      by = new_event(at, batch);
    }
    if (r.version != at) {
      throw violation("rule 4: " + describe_record({r.version, r.value}) + " of " + describe_key(p.key) +
                      " is a part, and another is in version " + std::to_string(at) + ", of the " +
                      describe(*h_, batch));
    }
    r.by = by;
  }
  if (found == 0 && o.return_ns == 0) return;
  if (found != inserts) {
    throw violation("rule 4: only " + std::to_string(found) + " of " + std::to_string(inserts) +
                    " inserts are there of the " + describe(*h_, batch));
  }
  if (by == no_event) by = new_event(at, batch);
  for (std::uint32_t i = 0; i < o.count; ++i) {
    const operation& p = operation_at(*h_, part(i));
    if (p.what == call::batch_remove) batched_removals_.push_back({p.key, by, part(i)});
  }
}

// ---- Rule 9: removals, which carry no value to know them by ----

/// The removals of one key that one life left in one version, and who may have made them.
struct matched_writes::removal_group {
  key_writes* key = nullptr;
  std::uint32_t life = 0;
  version at = 0;
  std::vector<std::uint32_t> records;
  std::vector<place_of_call> acknowledged;
  std::vector<const batched_removal*> batched;
  std::vector<place_of_call> in_flight;  // of the life and key, whatever the version
};

void matched_writes::match_removals() {
  using group_key = std::tuple<std::uint32_t, std::uint32_t, version>;  // key, life, version
  std::map<group_key, removal_group> groups;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<place_of_call>> in_flight;
  for (key_writes& k : keys_) {
    for (std::uint32_t i = 0; i < k.records.size(); ++i) {
      const key_record& r = k.records[i];
      if (r.value == 0) groups[{k.key, r.life, r.version}].records.push_back(i);
    }
  }
  for_each_operation(*h_, [&](place_of_call p, const operation& o) {
    if (o.what != call::remove) return;
    if (o.return_ns == 0) in_flight[{o.key, p.life}].push_back(p);
    if (o.return_ns != 0 && o.version != 0) groups[{o.key, p.life, o.version}].acknowledged.push_back(p);
  });
  for (const auto& b : batched_removals_) {
    const auto place = groups.find({b.key, b.part.life, events_[b.by].version});
    if (place != groups.end()) place->second.batched.push_back(&b);
  }
  for (auto& [where, group] : groups) {
    group.key = &key(std::get<0>(where));
    group.life = std::get<1>(where);
    group.at = std::get<2>(where);
    const auto interrupted = in_flight.find({group.key->key, group.life});
    if (interrupted != in_flight.end()) group.in_flight = interrupted->second;
    const std::size_t sure = group.acknowledged.size() + group.batched.size();
    if (group.records.size() > sure && interrupted != in_flight.end()) {
      // each remove in flight explains one removal at most
      const std::size_t needed = std::min(group.records.size() - sure, interrupted->second.size());
      interrupted->second.resize(interrupted->second.size() - needed);
    }
    match_removal_group(group);
  }
}

void matched_writes::match_removal_group(const removal_group& g) {
  const std::size_t found = g.records.size();
  const auto where = [&] { return describe_key(g.key->key) + " in version " + std::to_string(g.at); };
  if (found < g.acknowledged.size()) {
    throw violation("rule 9: " + std::to_string(found) + " removals of " + where() + ", where " +
                    std::to_string(g.acknowledged.size()) + " were acknowledged; one is the " +
                    describe(*h_, g.acknowledged.front()));
  }
  if (found > g.acknowledged.size() + g.batched.size() + g.in_flight.size()) {
    throw violation("rule 9: life " + std::to_string(g.life) + " left " + std::to_string(found) + " removals of " +
                    where() + ", more than anybody asked for");
  }
  if (found == 1 && g.acknowledged.empty() && g.in_flight.empty() && g.batched.size() == 1) {
    g.key->records[g.records[0]].by = g.batched.front()->by;
    return;
  }
  // Which call made which removal is not known. But before the i-th removal at least i calls of those that may have
  // made one had begun, and of those that end last as many had not ended as removals are to come.
  std::vector<bound> begins;
  std::vector<bound> ends;
  const auto may_be_by = [&](place_of_call p) {
    begins.push_back({operation_at(*h_, p).invoke_ns, p});
    ends.push_back({end_of(*h_, p), p});
  };
  std::ranges::for_each(g.acknowledged, may_be_by);
  if (found > g.acknowledged.size()) {
    std::ranges::for_each(g.in_flight, may_be_by);
    for (const auto* b : g.batched) {
      begins.push_back(events_[b->by].earliest);
      ends.push_back(events_[b->by].latest);
    }
  }
  std::ranges::sort(begins, {}, &bound::ns);
  std::ranges::sort(ends, {}, &bound::ns);
  if (found > g.acknowledged.size() + g.batched.size()) ++in_flight_kept_;
  for (std::size_t i = 0; i < found; ++i) {
    events_.push_back({g.at, begins[i], ends[ends.size() - (found - i)]});
    g.key->records[g.records[i]].by = static_cast<event_number>(events_.size() - 1);
  }
}

}  // namespace icecore::testing
