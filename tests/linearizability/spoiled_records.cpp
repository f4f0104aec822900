// Histories in which inspections found what they cannot have found: rules 1 to 5 and 9.
#include "corruptions.hpp"
#include "patient.hpp"

namespace icecore::testing {
namespace {

// ---- Rules 1 and 5: what was acknowledged ----

bool drop_acknowledged_insert(history& h, random_source& random) {
  patient p(h, random);
  const auto r = p.any_record([&](const record_place& x) { return p.inserter(x) != nullptr; });
  if (r) p.erase(*r);
  return r.has_value();
}

bool lose_the_newest_record_later(history& h, random_source& random) {
  std::vector<found_key*> all;
  for (auto& l : h.lives) {
    for (auto& i : l.inspections) {
      for (auto& k : i.keys) {
        if (k.known > 0 && k.more.empty()) all.push_back(&k);
      }
    }
  }
  if (all.empty()) return false;
  --all[random() % all.size()]->known;
  return true;
}

bool change_an_old_record_later(history& h, random_source& random) {
  std::vector<found_key*> all;
  for (auto& l : h.lives) {
    for (auto& i : l.inspections) {
      for (auto& k : i.keys) {
        if (k.known > 0) all.push_back(&k);
      }
    }
  }
  if (all.empty()) return false;
  found_key& k = *all[random() % all.size()];
  --k.known;
  k.more.insert(k.more.begin(), {1, from_nowhere});
  return true;
}

bool lose_a_key_later(history& h, random_source& random) {
  for (auto l = h.lives.rbegin(); l != h.lives.rend(); ++l) {
    for (auto& i : l->inspections) {
      std::vector<std::size_t> old;
      for (std::size_t k = 0; k < i.keys.size(); ++k) {
        if (i.keys[k].known > 0) old.push_back(k);
      }
      if (old.empty()) continue;
      i.keys.erase(i.keys.begin() + static_cast<std::ptrdiff_t>(old[random() % old.size()]));
      return true;
    }
  }
  return false;
}

bool show_an_insert_twice(history& h, random_source& random) {
  patient p(h, random);
  const auto r = p.any_record([&](const record_place& x) { return p.inserter(x) != nullptr; });
  if (r) p.add_behind(*r, *r->record);
  return r.has_value();
}

bool return_another_version(history& h, random_source& random) {
  patient p(h, random);
  const auto o = p.any([](place_of_call, const operation& x) { return x.what == call::insert && x.return_ns != 0; });
  if (o) ++p.at(*o).version;
  return o.has_value();
}

bool swap_the_versions_of_two_inserts(history& h, random_source& random) {
  patient p(h, random);
  const auto fits = [](place_of_call, const operation& x) { return x.what == call::insert && x.return_ns != 0; };
  const auto one = p.any(fits);
  if (!one) return false;
  const auto other =
      p.any([&](place_of_call q, const operation& x) { return fits(q, x) && x.version != p.at(*one).version; });
  if (!other) return false;
  std::swap(p.at(*one).version, p.at(*other).version);
  return true;
}

// ---- Rule 2: what was in flight ----

/// A write in flight that had not taken effect, in a life that is not the last.
std::optional<place_of_call> undone(patient& p, call what) {
  std::map<std::uint64_t, bool> found;
  for (const auto& [key, all] : p.keys()) {
    for (const auto& r : all) found[r.record->value] = true;
  }
  return p.any([&](place_of_call q, const operation& o) {
    return o.what == what && o.return_ns == 0 && !found.contains(o.value) && q.life + 1 < p.h().lives.size();
  });
}

bool resurrect_a_write_in_flight(history& h, random_source& random) {
  patient p(h, random);
  const auto lost = undone(p, call::insert);
  if (!lost) return false;
  const operation o = p.at(*lost);
  const auto behind = p.any_record(
      [&](const record_place& r) { return r.key == o.key && r.life > lost->life && p.next(r) == nullptr; });
  if (!behind) return false;
  p.add_behind(*behind, {behind->record->version, o.value});
  return true;
}

bool read_a_write_in_flight_that_is_lost(history& h, random_source& random) {
  patient p(h, random);
  const auto lost = undone(p, call::insert);
  if (!lost) return false;
  const auto read = p.any([&](place_of_call q, const operation& o) {
    return q.life == lost->life && o.what == call::find && o.key == p.at(*lost).key && o.return_ns != 0;
  });
  if (!read) return false;
  p.at(*read).value = p.at(*lost).value;
  return true;
}

bool add_a_record_between_two_inspections(history& h, random_source& random) {
  patient p(h, random);
  for (auto& l : h.lives) {
    if (l.inspections.size() < 2) continue;
    for (auto& k : l.inspections[1].keys) {
      if (k.known == 0) continue;
      k.more.push_back({l.inspections[1].clock, from_nowhere});
      return true;
    }
  }
  return false;
}

// ---- Rule 3: what nobody wrote ----

bool find_a_value_from_nowhere(history& h, random_source& random) {
  patient p(h, random);
  const auto o = p.any([](place_of_call, const operation& x) { return x.what == call::find && x.return_ns != 0; });
  if (o) p.at(*o).value = from_nowhere;
  return o.has_value();
}

bool recover_a_value_from_nowhere(history& h, random_source& random) {
  patient p(h, random);
  const auto r = p.any_record([&](const record_place& x) { return x.record->value != 0 && p.next(x) == nullptr; });
  if (r) p.add_behind(*r, {r->record->version, from_nowhere});
  return r.has_value();
}

bool swap_two_finds_of_different_keys(history& h, random_source& random) {
  patient p(h, random);
  const auto fits = [](const operation& x) { return x.what == call::find && x.return_ns != 0 && x.value != 0; };
  const auto one = p.any([&](place_of_call, const operation& x) { return fits(x); });
  if (!one) return false;
  const auto other = p.any([&](place_of_call, const operation& x) { return fits(x) && x.key != p.at(*one).key; });
  if (!other) return false;
  std::swap(p.at(*one).value, p.at(*other).value);
  return true;
}

bool recover_a_value_under_another_key(history& h, random_source& random) {
  patient p(h, random);
  const auto r = p.any_record([&](const record_place& x) { return p.inserter(x) != nullptr; });
  if (!r) return false;
  const auto other = p.any_record([&](const record_place& x) { return x.key != r->key && p.next(x) == nullptr; });
  if (!other) return false;
  p.add_behind(*other, {other->record->version, r->record->value});
  return true;
}

// ---- Rule 4: batches ----

bool lose_a_part_of_a_batch(history& h, random_source& random) {
  patient p(h, random);
  const auto r = p.any_record([&](const record_place& x) {
    const operation* const o = x.record->value == 0 ? nullptr : p.writer(x.record->value);
    const bool removed_next = p.next(x) != nullptr && p.next(x)->record->value == 0;
    return o != nullptr && o->what == call::batch_insert && !removed_next;
  });
  if (r) p.erase(*r);
  return r.has_value();
}

bool keep_a_part_of_a_batch_in_flight(history& h, random_source& random) {
  patient p(h, random);
  std::map<std::uint64_t, bool> found;
  for (const auto& [key, all] : p.keys()) {
    for (const auto& r : all) found[r.record->value] = true;
  }
  // two inserts of a batch that did not happen, the second of a key that has a record of that life as its last
  const auto batch = p.any([&](place_of_call q, const operation& o) {
    if (o.what != call::batch || o.return_ns != 0) return false;
    std::uint32_t inserts = 0;
    for (std::uint32_t i = 1; i <= o.count; ++i) {
      const operation& part = p.at({q.life, q.client, q.index + i});
      if (part.what != call::batch_insert) continue;
      if (found.contains(part.value)) return false;
      ++inserts;
    }
    return inserts > 1;
  });
  if (!batch) return false;
  for (std::uint32_t i = 1; i <= p.at(*batch).count; ++i) {
    const operation& part = p.at({batch->life, batch->client, batch->index + i});
    if (part.what != call::batch_insert) continue;
    const auto last = p.any_record([&](const record_place& r) {
      return r.key == part.key && r.life == batch->life && (p.next(r) == nullptr || p.next(r)->life > r.life);
    });
    if (!last) continue;
    p.add_behind(*last, {last->record->version, part.value});
    return true;
  }
  return false;
}

bool split_a_batch_over_versions(history& h, random_source& random) {
  patient p(h, random);
  const auto r = p.any_record([&](const record_place& x) {
    const operation* const o = x.record->value == 0 ? nullptr : p.writer(x.record->value);
    return o != nullptr && o->what == call::batch_insert &&
           (p.next(x) == nullptr || p.next(x)->record->version > x.record->version);
  });
  if (r) ++r->record->version;
  return r.has_value();
}

// ---- Rule 9: removals ----

bool lose_a_remove(history& h, random_source& random) {
  patient p(h, random);
  const auto o = p.any([&](place_of_call, const operation& x) {
    if (x.what != call::remove || x.return_ns == 0 || x.version == 0) return false;
    const auto& all = p.records(x.key);
    return std::ranges::count_if(
               all, [&](const record_place& r) { return r.record->value == 0 && r.record->version == x.version; }) == 1;
  });
  if (!o) return false;
  for (const auto& r : p.records(p.at(*o).key)) {
    if (r.record->value != 0 || r.record->version != p.at(*o).version) continue;
    p.erase(r);
    return true;
  }
  return false;
}

bool deny_a_remove(history& h, random_source& random) {
  patient p(h, random);
  const auto o = p.any([&](place_of_call q, const operation& x) {
    if (x.what != call::remove || x.return_ns == 0 || x.version == 0) return false;
    // nobody else may have made the removal
    bool sole = true;
    for_each_operation(p.h(), [&](place_of_call r, const operation& y) {
      if (y.key != x.key || r.life != q.life || &y == &x) return;
      sole &= y.what != call::batch_remove && !(y.what == call::remove && y.return_ns == 0);
    });
    return sole;
  });
  if (o) p.at(*o).version = 0;
  return o.has_value();
}

bool remove_what_nobody_removed(history& h, random_source& random) {
  patient p(h, random);
  const auto r = p.any_record([&](const record_place& x) { return p.inserter(x) != nullptr && p.next(x) == nullptr; });
  if (!r) return false;
  bool suspects = false;
  for_each_operation(h, [&](place_of_call q, const operation& o) {
    const bool removes = o.what == call::batch_remove || (o.what == call::remove && o.return_ns == 0);
    suspects |= removes && q.life == r->life && o.key == r->key;
  });
  if (suspects) return false;
  p.add_behind(*r, {r->record->version, 0});
  return true;
}

bool remove_what_was_removed(history& h, random_source& random) {
  patient p(h, random);
  const auto r = p.any_record([&](const record_place& x) { return x.record->value == 0; });
  if (r) p.add_behind(*r, *r->record);
  return r.has_value();
}

}  // namespace

const std::vector<corruption>& spoiled_records() {
  static const std::vector<corruption> all = {
      {"drop_acknowledged_insert", {1, 9}, drop_acknowledged_insert},
      {"show_an_insert_twice", {1}, show_an_insert_twice},
      {"return_another_version", {1}, return_another_version},
      {"swap_the_versions_of_two_inserts", {1}, swap_the_versions_of_two_inserts},
      {"lose_a_key_later", {1}, lose_a_key_later},
      {"resurrect_a_write_in_flight", {2}, resurrect_a_write_in_flight},
      {"add_a_record_between_two_inspections", {2}, add_a_record_between_two_inspections},
      {"find_a_value_from_nowhere", {3}, find_a_value_from_nowhere},
      {"recover_a_value_from_nowhere", {3}, recover_a_value_from_nowhere},
      {"recover_a_value_under_another_key", {3}, recover_a_value_under_another_key},
      {"swap_two_finds_of_different_keys", {3}, swap_two_finds_of_different_keys},
      {"read_a_write_in_flight_that_is_lost", {3}, read_a_write_in_flight_that_is_lost},
      {"lose_a_part_of_a_batch", {4}, lose_a_part_of_a_batch},
      {"keep_a_part_of_a_batch_in_flight", {4}, keep_a_part_of_a_batch_in_flight},
      {"split_a_batch_over_versions", {4}, split_a_batch_over_versions},
      {"lose_the_newest_record_later", {5}, lose_the_newest_record_later},
      {"change_an_old_record_later", {5, 2}, change_an_old_record_later},
      {"lose_a_remove", {9}, lose_a_remove},
      {"deny_a_remove", {9}, deny_a_remove},
      {"remove_what_nobody_removed", {9}, remove_what_nobody_removed},
      {"remove_what_was_removed", {9}, remove_what_was_removed}};
  return all;
}

}  // namespace icecore::testing
