#include "phases.hpp"

#include <algorithm>
#include <chrono>
#include <queue>

#include "../suites/phases.hpp"
#include "../timed.hpp"
#include "records.hpp"

namespace icecore::bench::ycsb {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t scan_length_max = 100;

/// The greatest key number with at least `scan_length_max` loaded keys at or after it; 0 if there are not so many.
std::uint64_t last_key_of_full_scans(std::uint64_t records) {
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> greatest;
  for (std::uint64_t record = 0; record < records; ++record) {
    greatest.push(record_key(record).number());
    if (greatest.size() > scan_length_max) greatest.pop();
  }
  return greatest.size() < scan_length_max ? 0 : greatest.top();
}

/// The work of one thread.
class player {
 public:
  player(map_session& session, insert_counter& inserts, std::uint64_t records, std::size_t value_size, unsigned thread)
      : session_(session),
        inserts_(inserts),
        records_(records),
        values_(value_size),
        choice_(thread),
        pairs_(scan_length_max, sizeof(std::uint64_t), value_size) {}

  void play(const plan& does, unsigned thread, const operation& next) {
    const stream& from = does.of_thread[thread];
    switch (next.kind) {
      case operation_kind::read:
        return read(record_key(target(from, next)));
      case operation_kind::update:
        return update(record_key(target(from, next)));
      case operation_kind::insert:
        insert();
        return;
      case operation_kind::scan:
        return scan(record_key(target(from, next)), next.scan_length, does.last_full_scan);
      case operation_kind::read_modify_write: {
        const record_key key(target(from, next));
        read(key);
        return update(key);
      }
    }
  }

  void load(std::uint64_t record) {
    const record_key key(record);
    session_.insert(key.bytes(), values_.make(key.number(), choice_++));
  }

  std::uint64_t insert() {
    const std::uint64_t record = inserts_.next();
    load(record);
    inserts_.acknowledge(record);
    return record;
  }

 private:
  [[nodiscard]] std::uint64_t target(const stream& from, const operation& next) const noexcept {
    const std::uint64_t there = inserts_.acknowledged();
    if (from.from_newest) return there - 1 - next.record % there;
    return next.record < there ? next.record : next.record % records_;  // the other threads are slower than expected
  }

  void read(const record_key& key) {
    const auto value = session_.read(key.bytes());
    expect(value && values_.is_of(key.number(), *value), "a read");
  }

  void update(const record_key& key) { session_.update(key.bytes(), values_.make(key.number(), choice_++)); }

  void scan(const record_key& from, std::size_t length, std::uint64_t last_full_scan) {
    pairs_.clear();
    session_.scan(from.bytes(), length, pairs_);
    expect(pairs_.count() == length || (pairs_.count() < length && from.number() > last_full_scan),
           "the end of a scan");
    std::uint64_t before = from.number();
    for (std::size_t i = 0; i < pairs_.count(); ++i) {
      const std::uint64_t key = number_of_key(pairs_.key(i));
      expect(i == 0 ? key == before : key > before, "a key of a scan");
      expect(values_.is_of(key, pairs_.value(i)), "a value of a scan");
      before = key;
    }
    expect(pairs_.count() > 0, "a scan");
  }

  map_session& session_;
  insert_counter& inserts_;
  std::uint64_t records_;
  values values_;
  std::uint64_t choice_;
  pair_columns pairs_;
};

/// Calls `play` for the operations of the stream, and starts again at its end, until `seconds` have passed. Returns the
/// number of operations.
template <typename Play>
std::uint64_t play_for(double seconds, const stream& from, const Play& play) {
  constexpr std::uint64_t operations_a_look = 32;
  const auto end = clock::now() + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds));
  std::uint64_t done = 0;
  for (std::size_t i = 0;; i = i + 1 == from.operations.size() ? 0 : i + 1) {
    play(from.operations[i]);
    if (++done % operations_a_look == 0 && clock::now() >= end) return done;
  }
}

/// Plays all operations of the stream, or if `seconds` is given, does the same as play_for(). Returns their number.
template <typename Play>
std::uint64_t play_all(const stream& from, double seconds, const Play& play) {
  if (seconds > 0) return play_for(seconds, from, play);
  std::ranges::for_each(from.operations, play);
  return from.operations.size();
}

}  // namespace

plan::plan(const workload& work, unsigned threads, std::uint64_t records, const settings& chosen) {
  const std::uint64_t operations = chosen.operations == 0 ? records : chosen.operations;
  for (unsigned thread = 0; thread < threads; ++thread) {
    const part mine(operations, threads, thread);
    of_thread.push_back(operations_of(work, {.records = records,
                                             .operations = std::max<std::uint64_t>(mine.end - mine.begin, 1),
                                             .threads = threads,
                                             .theta = chosen.theta,
                                             .chosen = chosen.chosen,
                                             .seed = thread + 1}));
  }
  const bool scans = work.percent[static_cast<std::size_t>(operation_kind::scan)] > 0;
  last_full_scan = scans ? last_key_of_full_scans(records) : 0;
}

loaded_map::loaded_map(map& of, unsigned threads, std::uint64_t records, const settings& chosen)
    : map_(of), threads_(threads), records_(records), chosen_(chosen), inserts_(records) {}

template <typename Work>
double loaded_map::in_threads(const Work& work) {
  return timed_with_sessions(
      threads_, [&] { return map_.new_session(); },
      [&](map_session& session, unsigned thread) {
        player own(session, inserts_, records_, chosen_.value_size, thread);
        work(own, thread);
      });
}

double loaded_map::load() {
  return in_threads([&](player& own, unsigned thread) {
    const part mine(records_, threads_, thread);
    for (std::uint64_t record = mine.begin; record < mine.end; ++record) own.load(record);
  });
}

void loaded_map::warm_up(const plan& does) {
  constexpr std::size_t part_of_all = 10;
  in_threads([&](player& own, unsigned thread) {
    const std::span<const operation> all = does.of_thread[thread].operations;
    for (const operation& next : all.first(all.size() / part_of_all)) own.play(does, thread, next);
  });
}

loaded_map::ran loaded_map::run(const plan& does) {
  std::vector<std::uint64_t> done(threads_);
  const double seconds = in_threads([&](player& own, unsigned thread) {
    done[thread] =
        play_all(does.of_thread[thread], chosen_.seconds, [&](const operation& next) { own.play(does, thread, next); });
  });
  double operations = 0;
  for (const std::uint64_t count : done) operations += static_cast<double>(count);
  return {.operations = operations, .seconds = seconds};
}

latencies loaded_map::run_timed(const plan& does) {
  std::vector<latencies> taken(threads_);
  in_threads([&](player& own, unsigned thread) {
    play_all(does.of_thread[thread], chosen_.seconds, [&](const operation& next) {
      const auto begin = clock::now();
      own.play(does, thread, next);
      const std::chrono::nanoseconds passed = clock::now() - begin;
      taken[thread][static_cast<std::size_t>(next.kind)].add(static_cast<std::uint64_t>(passed.count()));
    });
  });
  latencies all{};
  for (const latencies& of_thread : taken) {
    for (std::size_t kind = 0; kind < all.size(); ++kind) all[kind].add(of_thread[kind]);
  }
  return all;
}

void loaded_map::run_in_tenths(const plan& does, std::span<double> counts) {
  constexpr double tenth = 0.1;
  std::vector<std::vector<std::uint64_t>> done(threads_, std::vector<std::uint64_t>(counts.size()));
  in_threads([&](player& own, unsigned thread) {
    const auto begin = clock::now();
    play_for(tenth * static_cast<double>(counts.size()), does.of_thread[thread], [&](const operation& next) {
      own.play(does, thread, next);
      const double passed = std::chrono::duration<double>(clock::now() - begin).count();
      const auto place = static_cast<std::size_t>(passed / tenth);
      if (place < counts.size()) ++done[thread][place];
    });
  });
  for (std::size_t place = 0; place < counts.size(); ++place) {
    counts[place] = 0;
    for (const auto& of_thread : done) counts[place] += static_cast<double>(of_thread[place]);
  }
}

void loaded_map::insert_until_killed(unsigned thread, std::uint64_t& inserted) {
  const auto session = map_.new_session();
  player own(*session, inserts_, records_, chosen_.value_size, thread);
  for (;;) {
    const std::uint64_t record = own.insert();
    std::atomic_ref(inserted).store(record + 1, std::memory_order_relaxed);  // read after this process has ended
  }
}

void loaded_map::check_writes_are_seen() {
  constexpr std::uint64_t checked = 1000;
  const auto session = map_.new_session();
  values values(chosen_.value_size);
  for (std::uint64_t i = 0; i < checked; ++i) {
    const record_key key(records_ * i / checked);
    const std::string_view written = values.make(key.number(), i);
    session->update(key.bytes(), written);
    const auto value = session->read(key.bytes());
    expect(value && *value == written, "a read of what was just written");
  }
}

void check_there(map& in, std::uint64_t record, std::size_t value_size) {
  const record_key key(record);
  const auto session = in.new_session();
  const auto value = session->read(key.bytes());
  expect(value && values(value_size).is_of(key.number(), *value), "a record that was there");
}

}  // namespace icecore::bench::ycsb
