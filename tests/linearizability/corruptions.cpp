#include "corruptions.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "content.hpp"
#include "violation.hpp"

namespace icecore::testing {
namespace {

using random_source = std::mt19937_64;

/// A record in the inspection that found it first.
struct record_place {
  std::uint32_t life;
  std::uint32_t key;
  std::size_t position;  // among all records of the key
  found_record* record;
};

/// A history to be spoiled, with its records and operations at hand.
class patient {
 public:
  patient(history& h, random_source& random) : h_(&h), random_(&random) {
    for (std::uint32_t l = 0; l < h.lives.size(); ++l) {
      for (auto& i : h.lives[l].inspections) {
        for (auto& k : i.keys) {
          for (auto& r : k.more) {
            auto& of_key = records_[k.key];
            of_key.push_back({l, k.key, of_key.size(), &r});
          }
        }
      }
    }
    for_each_operation(h, [&](place_of_call p, const operation& o) {
      if (o.what == call::insert || o.what == call::batch_insert) by_value_[o.value] = p;
    });
  }

  [[nodiscard]] history& h() { return *h_; }
  [[nodiscard]] operation& at(place_of_call p) { return h_->lives[p.life].clients[p.client][p.index]; }
  [[nodiscard]] std::vector<record_place>& records(std::uint32_t key) { return records_[key]; }
  [[nodiscard]] std::map<std::uint32_t, std::vector<record_place>>& keys() { return records_; }
  [[nodiscard]] operation* writer(std::uint64_t value) {
    const auto place = by_value_.find(value);
    return place == by_value_.end() ? nullptr : &at(place->second);
  }
  /// The insert, not of a batch, that returned and wrote this record.
  [[nodiscard]] operation* inserter(const record_place& r) {
    operation* const o = r.record->value == 0 ? nullptr : writer(r.record->value);
    return o != nullptr && o->what == call::insert && o->return_ns != 0 ? o : nullptr;
  }

  /// A random operation among those that `fits`.
  template <class Fits>
  [[nodiscard]] std::optional<place_of_call> any(Fits fits) {
    std::vector<place_of_call> fitting;
    for_each_operation(*h_, [&](place_of_call p, const operation& o) {
      if (fits(p, o)) fitting.push_back(p);
    });
    if (fitting.empty()) return std::nullopt;
    return fitting[(*random_)() % fitting.size()];
  }
  /// A random record among those that `fits`.
  template <class Fits>
  [[nodiscard]] std::optional<record_place> any_record(Fits fits) {
    std::vector<record_place> fitting;
    for (const auto& [key, all] : records_) {
      for (const auto& r : all) {
        if (fits(r)) fitting.push_back(r);
      }
    }
    if (fitting.empty()) return std::nullopt;
    return fitting[(*random_)() % fitting.size()];
  }
  [[nodiscard]] const record_place* next(const record_place& r) {
    auto& all = records_[r.key];
    return r.position + 1 < all.size() ? &all[r.position + 1] : nullptr;
  }
  [[nodiscard]] const record_place* previous(const record_place& r) {
    return r.position == 0 ? nullptr : &records_[r.key][r.position - 1];
  }

  /// As if the record had never been.
  void erase(const record_place& r) { edit(r, 0); }
  /// As if `fresh` had been behind the record from the beginning.
  void add_behind(const record_place& r, const found_record& fresh) { edit(r, 1, fresh); }

 private:
  void edit(const record_place& r, int grown, const found_record& fresh = {}) {
    bool found = false;
    for (auto& l : h_->lives) {
      for (auto& i : l.inspections) {
        for (auto& k : i.keys) {
          if (k.key != r.key) continue;
          const auto place = std::ranges::find_if(k.more, [&](const found_record& f) { return &f == r.record; });
          if (place != k.more.end()) {
            found = true;
            if (grown == 0) {
              k.more.erase(place);
            } else {
              k.more.insert(place + 1, fresh);
            }
          } else if (found) {
            k.known += grown == 0 ? ~std::uint64_t{0} : 1;
          }
        }
      }
    }
  }

  history* h_;
  random_source* random_;
  std::map<std::uint32_t, std::vector<record_place>> records_;
  std::unordered_map<std::uint64_t, place_of_call> by_value_;
};

constexpr std::uint64_t from_nowhere = 0x7fffffffffff;

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

const std::vector<corruption>& corruptions() {
  static const std::vector<corruption> all = {
      {"drop_acknowledged_insert", {1, 9}, drop_acknowledged_insert},
      {"show_an_insert_twice", {1}, show_an_insert_twice},
      {"return_another_version", {1}, return_another_version},
      {"swap_the_versions_of_two_inserts", {1}, swap_the_versions_of_two_inserts},
      {"lose_a_key_later", {1}, lose_a_key_later},
      {"lose_a_tag", {1}, lose_a_tag},
      {"resurrect_a_write_in_flight", {2}, resurrect_a_write_in_flight},
      {"add_a_record_between_two_inspections", {2}, add_a_record_between_two_inspections},
      {"find_a_value_from_nowhere", {3}, find_a_value_from_nowhere},
      {"recover_a_value_from_nowhere", {3}, recover_a_value_from_nowhere},
      {"recover_a_value_under_another_key", {3}, recover_a_value_under_another_key},
      {"swap_two_finds_of_different_keys", {3}, swap_two_finds_of_different_keys},
      {"read_a_write_in_flight_that_is_lost", {3}, read_a_write_in_flight_that_is_lost},
      {"find_a_tag_that_nobody_made", {3}, find_a_tag_that_nobody_made},
      {"lose_a_part_of_a_batch", {4}, lose_a_part_of_a_batch},
      {"keep_a_part_of_a_batch_in_flight", {4}, keep_a_part_of_a_batch_in_flight},
      {"split_a_batch_over_versions", {4}, split_a_batch_over_versions},
      {"lose_the_newest_record_later", {5}, lose_the_newest_record_later},
      {"change_an_old_record_later", {5, 2}, change_an_old_record_later},
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
      {"lose_a_remove", {9}, lose_a_remove},
      {"deny_a_remove", {9}, deny_a_remove},
      {"remove_what_nobody_removed", {9}, remove_what_nobody_removed},
      {"remove_what_was_removed", {9}, remove_what_was_removed},
      {"repeat_a_version_after_a_crash", {10}, repeat_a_version_after_a_crash},
      {"repeat_a_version_in_one_life", {10}, repeat_a_version_in_one_life},
      {"turn_the_clock_back_in_a_crash", {10}, turn_the_clock_back_in_a_crash},
      {"skip_versions", {10}, skip_versions}};
  return all;
}

}  // namespace icecore::testing
