// Histories in which calls were answered as they cannot have been: rules 6 to 8 and 10.
#include "corruptions.hpp"
#include "patient.hpp"

namespace icecore::testing {
namespace {

/// Takes away all reads of versions and of records: what is left to tell of an order is time.
void forget_reads_of_versions(history& h) {
  for (auto& l : h.lives) {
    for (auto& client : l.clients) {
      std::erase_if(client, [](const operation& o) {
        return o.what == call::find_at || o.what == call::digest_at || o.what == call::history;
      });
    }
    for (auto& i : l.inspections) i.digests.clear();
  }
}

// ---- Rule 6: instants ----

bool read_stale(history& h, random_source& random) {
  patient p(h, random);
  const auto r = p.any_record([&](const record_place& x) {
    return x.record->value != 0 && p.next(x) != nullptr && p.inserter(*p.next(x)) != nullptr;
  });
  if (!r) return false;
  const std::int64_t overwritten_ns = p.inserter(*p.next(*r))->return_ns;
  const auto read = p.any([&](place_of_call, const operation& o) {
    return o.what == call::find && o.key == r->key && o.return_ns != 0 && o.invoke_ns > overwritten_ns;
  });
  if (!read) return false;
  p.at(*read).value = r->record->value;
  return true;
}

bool read_the_future(history& h, random_source& random) {
  patient p(h, random);
  const auto r = p.any_record([&](const record_place& x) { return p.inserter(x) != nullptr; });
  if (!r) return false;
  const std::int64_t written_ns = p.inserter(*r)->invoke_ns;
  const auto read = p.any([&](place_of_call, const operation& o) {
    return o.what == call::find && o.key == r->key && o.return_ns != 0 && o.return_ns < written_ns;
  });
  if (!read) return false;
  p.at(*read).value = r->record->value;
  return true;
}

bool read_backwards(history& h, random_source& random) {
  patient p(h, random);
  std::map<std::uint64_t, std::size_t> position;
  for (const auto& [key, all] : p.keys()) {
    for (const auto& r : all) {
      if (r.record->value != 0) position[r.record->value] = r.position;
    }
  }
  const auto found = [&](const operation& o) { return o.what == call::find && o.return_ns != 0 && o.value != 0; };
  const auto first = p.any([&](place_of_call, const operation& o) { return found(o); });
  if (!first) return false;
  const operation before = p.at(*first);
  const auto second = p.any([&](place_of_call, const operation& o) {
    return found(o) && o.key == before.key && o.invoke_ns > before.return_ns &&
           position.at(o.value) > position.at(before.value);
  });
  if (!second) return false;
  std::swap(p.at(*first).value, p.at(*second).value);
  return true;
}

bool swap_records_of_calls_one_after_the_other(history& h, random_source& random) {
  forget_reads_of_versions(h);
  patient p(h, random);
  const auto r = p.any_record([&](const record_place& x) {
    const auto* const n = p.next(x);
    if (n == nullptr || n->life != x.life || n->record->version != x.record->version) return false;
    operation* const one = p.inserter(x);
    operation* const other = p.inserter(*n);
    return one != nullptr && other != nullptr && one->return_ns < other->invoke_ns;
  });
  if (r) std::swap(*r->record, *p.next(*r)->record);
  return r.has_value();
}

/// A tag that returned, and an insert that comes before or behind it by time, to be put on its other side.
bool move_over_a_tag(history& h, random_source& random, bool into_closed) {
  forget_reads_of_versions(h);
  patient p(h, random);
  const auto tag = p.any([](place_of_call, const operation& o) { return o.what == call::tag && o.return_ns != 0; });
  if (!tag) return false;
  const operation t = p.at(*tag);
  const auto r = p.any_record([&](const record_place& x) {
    operation* const o = p.inserter(x);
    if (o == nullptr) return false;
    if (into_closed) {
      return o->invoke_ns > t.return_ns && (p.previous(x) == nullptr || p.previous(x)->record->version <= t.version);
    }
    return o->return_ns < t.invoke_ns && (p.next(x) == nullptr || p.next(x)->record->version > t.version);
  });
  if (!r) return false;
  operation* const o = p.inserter(*r);
  o->version = r->record->version = into_closed ? t.version : t.version + 1;
  return true;
}
bool write_into_a_closed_version(history& h, random_source& random) { return move_over_a_tag(h, random, true); }
bool write_past_a_later_tag(history& h, random_source& random) { return move_over_a_tag(h, random, false); }

bool answer_latest_without_what_had_returned(history& h, random_source& random) {
  patient p(h, random);
  const auto latest =
      p.any([](place_of_call, const operation& o) { return o.what == call::latest && o.return_ns != 0; });
  if (!latest) return false;
  const auto covered = p.any([&](place_of_call, const operation& o) {
    return o.what == call::insert && o.return_ns != 0 && o.return_ns < p.at(*latest).invoke_ns && o.version > 1;
  });
  if (!covered) return false;
  p.at(*latest).version = p.at(*covered).version - 1;
  return true;
}

bool find_in_a_version_not_yet_closed(history& h, random_source& random) {
  patient p(h, random);
  const auto tag = p.any([](place_of_call, const operation& o) { return o.what == call::tag && o.return_ns != 0; });
  if (!tag) return false;
  const operation t = p.at(*tag);
  const auto read = p.any([&](place_of_call, const operation& o) {
    return o.what == call::find_at && o.return_ns != 0 && o.return_ns < t.invoke_ns;
  });
  if (!read) return false;
  operation& o = p.at(*read);
  o.version = t.version;
  o.value = 0;
  for (const auto& r : p.records(o.key)) {
    if (r.record->version <= t.version) o.value = r.record->value;
  }
  return true;
}

bool set_the_clock_back_behind_a_tag(history& h, random_source& random) {
  patient p(h, random);
  const auto tag = p.any([](place_of_call, const operation& o) { return o.what == call::tag && o.return_ns != 0; });
  if (!tag) return false;
  const operation t = p.at(*tag);
  const auto clock = p.any([&](place_of_call, const operation& o) {
    return o.what == call::clock && o.return_ns != 0 && o.invoke_ns > t.return_ns;
  });
  if (!clock) return false;
  p.at(*clock).version = t.version;
  return true;
}

// ---- Rules 7 and 8: reads ----

bool find_nothing_of_a_key_that_is_there(history& h, random_source& random) {
  patient p(h, random);
  const auto read = p.any([&](place_of_call, const operation& o) {
    if (o.what != call::find || o.return_ns == 0 || o.value == 0) return false;
    const auto& all = p.records(o.key);
    const bool removed = std::ranges::any_of(all, [](const record_place& r) { return r.record->value == 0; });
    const operation* const first = all.empty() ? nullptr : p.inserter(all.front());
    return !removed && first != nullptr && first->return_ns < o.invoke_ns;
  });
  if (read) p.at(*read).value = 0;
  return read.has_value();
}

bool find_another_value_in_a_version(history& h, random_source& random) {
  patient p(h, random);
  const auto read = p.any([&](place_of_call, const operation& o) {
    return o.what == call::find_at && o.return_ns != 0 && o.value != 0 && p.records(o.key).size() > 1;
  });
  if (!read) return false;
  operation& o = p.at(*read);
  for (const auto& r : p.records(o.key)) {
    if (r.record->value == o.value) continue;
    o.value = r.record->value;
    return true;
  }
  return false;
}

bool spoil_a_scan(history& h, random_source& random) {
  patient p(h, random);
  const auto o = p.any([](place_of_call, const operation& x) { return x.what == call::digest_at && x.return_ns != 0; });
  if (o) ++p.at(*o).value;
  return o.has_value();
}

bool scan_another_version(history& h, random_source& random) {
  patient p(h, random);
  const auto fits = [](const operation& x) {
    return x.what == call::digest_at && x.key == 0 && x.return_ns != 0 && x.version > 0;
  };
  const auto one = p.any([&](place_of_call, const operation& x) { return fits(x); });
  if (!one) return false;
  const auto other = p.any([&](place_of_call, const operation& x) { return fits(x) && x.value != p.at(*one).value; });
  if (!other) return false;
  p.at(*one).value = p.at(*other).value;
  return true;
}

bool spoil_a_scan_of_an_inspection(history& h, random_source&) {
  for (auto& l : h.lives) {
    for (auto& i : l.inspections) {
      if (i.digests.empty()) continue;
      ++i.digests.back().digest;
      return true;
    }
  }
  return false;
}

bool show_a_stale_history(history& h, random_source& random) {
  patient p(h, random);
  const auto read = p.any([&](place_of_call, const operation& o) {
    if (o.what != call::history || o.return_ns == 0 || o.count < 2) return false;
    const auto& all = p.records(o.key);
    operation* const last = o.count <= all.size() ? p.inserter(all[o.count - 1]) : nullptr;
    return last != nullptr && last->return_ns < o.invoke_ns;
  });
  if (!read) return false;
  operation& o = p.at(*read);
  records_digest shorter;
  --o.count;
  for (std::size_t i = 0; i < o.count; ++i) shorter.add_newer(*p.records(o.key)[i].record);
  o.value = shorter.sum;
  return true;
}

bool spoil_a_history(history& h, random_source& random) {
  patient p(h, random);
  const auto o = p.any([](place_of_call, const operation& x) { return x.what == call::history && x.return_ns != 0; });
  if (o) p.at(*o).value ^= 1;
  return o.has_value();
}

// ---- Rule 10: tags and the clock ----

bool repeat_a_version(history& h, random_source& random, bool across_a_crash) {
  patient p(h, random);
  const auto tags = [](const operation& o) { return o.what == call::tag && o.return_ns != 0 && o.value == 0; };
  const auto one = p.any([&](place_of_call, const operation& o) { return tags(o); });
  if (!one) return false;
  const auto other = p.any([&](place_of_call q, const operation& o) {
    return tags(o) && &o != &p.at(*one) && (q.life > one->life) == across_a_crash && (q.life >= one->life);
  });
  if (!other) return false;
  p.at(*other).version = p.at(*one).version;
  return true;
}
bool repeat_a_version_after_a_crash(history& h, random_source& random) { return repeat_a_version(h, random, true); }
bool repeat_a_version_in_one_life(history& h, random_source& random) { return repeat_a_version(h, random, false); }

bool tag_in_the_wrong_order(history& h, random_source& random) {
  patient p(h, random);
  const auto tags = [](const operation& o) { return o.what == call::tag && o.return_ns != 0 && o.value == 0; };
  const auto one = p.any([&](place_of_call, const operation& o) { return tags(o); });
  if (!one) return false;
  const auto other = p.any([&](place_of_call q, const operation& o) {
    return tags(o) && q.life == one->life && o.invoke_ns > p.at(*one).return_ns;
  });
  if (!other) return false;
  std::swap(p.at(*one).version, p.at(*other).version);
  return true;
}

/// In all inspections; whether any changed.
template <class Change>
bool change_tag_lists(history& h, Change change) {
  bool changed = false;
  for (auto& l : h.lives) {
    for (auto& i : l.inspections) changed |= change(i);
  }
  return changed;
}

bool lose_a_tag(history& h, random_source& random) {
  patient p(h, random);
  const auto o =
      p.any([](place_of_call, const operation& x) { return x.what == call::tag && x.return_ns != 0 && x.value != 0; });
  if (!o) return false;
  const std::uint64_t name = p.at(*o).value;
  return change_tag_lists(
      h, [&](inspection& i) { return std::erase_if(i.tags, [&](const found_tag& t) { return t.name == name; }) > 0; });
}

bool find_a_tag_that_nobody_made(history& h, random_source&) {
  for (auto& l : h.lives) {
    for (auto& i : l.inspections) {
      for (version v = 1; v < i.clock; ++v) {
        const auto place = std::ranges::lower_bound(i.tags, v, {}, &found_tag::version);
        if (place != i.tags.end() && place->version == v) continue;
        i.tags.insert(place, {v, from_nowhere});
        return true;
      }
    }
  }
  return false;
}

bool turn_the_clock_back_in_a_crash(history& h, random_source&) {
  version before = 1;
  for (auto& l : h.lives) {
    for (auto& i : l.inspections) {
      if (before > 1) {
        i.clock = before - 1;
        return true;
      }
      before = i.clock;
    }
  }
  return false;
}

bool skip_versions(history& h, random_source& random) {
  auto& l = h.lives[random() % h.lives.size()];
  for (auto& i : l.inspections) i.clock += 100'000;
  return !l.inspections.empty() && &l == &h.lives.back();
}

}  // namespace

const std::vector<corruption>& spoiled_answers() {
  static const std::vector<corruption> all = {
      {"lose_a_tag", {1}, lose_a_tag},
      {"find_a_tag_that_nobody_made", {3}, find_a_tag_that_nobody_made},
      {"read_stale", {6}, read_stale},
      {"read_the_future", {6}, read_the_future},
      {"read_backwards", {6}, read_backwards},
      {"swap_records_of_calls_one_after_the_other", {6}, swap_records_of_calls_one_after_the_other},
      {"write_into_a_closed_version", {6}, write_into_a_closed_version},
      {"write_past_a_later_tag", {6}, write_past_a_later_tag},
      {"answer_latest_without_what_had_returned", {6, 10}, answer_latest_without_what_had_returned},
      {"tag_in_the_wrong_order", {6}, tag_in_the_wrong_order},
      {"set_the_clock_back_behind_a_tag", {6}, set_the_clock_back_behind_a_tag},
      {"show_a_stale_history", {6}, show_a_stale_history},
      {"spoil_a_history", {7}, spoil_a_history},
      {"find_nothing_of_a_key_that_is_there", {7}, find_nothing_of_a_key_that_is_there},
      {"find_another_value_in_a_version", {8}, find_another_value_in_a_version},
      {"find_in_a_version_not_yet_closed", {6}, find_in_a_version_not_yet_closed},
      {"spoil_a_scan", {8}, spoil_a_scan},
      {"scan_another_version", {8}, scan_another_version},
      {"spoil_a_scan_of_an_inspection", {8}, spoil_a_scan_of_an_inspection},
      {"repeat_a_version_after_a_crash", {10}, repeat_a_version_after_a_crash},
      {"repeat_a_version_in_one_life", {10}, repeat_a_version_in_one_life},
      {"turn_the_clock_back_in_a_crash", {10}, turn_the_clock_back_in_a_crash},
      {"skip_versions", {10}, skip_versions}};
  return all;
}

}  // namespace icecore::testing
