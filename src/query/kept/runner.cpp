#include "query/kept/runner.hpp"

#include <algorithm>
#include <thread>

#include "base/background/library_thread.hpp"
#include "base/raise.hpp"
#include "base/threads.hpp"

namespace icecore::detail {
namespace {

constexpr std::uint32_t chunk_keys_max = 8192;
constexpr std::size_t chunk_bytes_max = std::size_t{128} << 10;

/// Some rows of a block.
rows rows_of(const rows& block, std::size_t first, std::size_t count) noexcept {
  rows some = block;
  some.size = count;
  some.keys += first;
  some.values += first;
  some.versions += first;
  return some;
}

std::string message_of(const std::exception_ptr& why) {
  try {
    std::rethrow_exception(why);
  } catch (const error& e) {
    return e.message();
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "something that is no std::exception";
  }
}

needs_of needs_of_kept(const kept_of_matches& what) {
  needs_of all;
  const auto add = [&all](needs_of more) {
    all.value = all.value || more.value;
    all.version = all.version || more.version;
    all.changes = all.changes || more.changes;
    all.kept = all.kept || more.kept;
  };
  if (what.select != nullptr) add(what.select->needs());
  if (what.totals != nullptr) add(what.totals->needs());
  return all;
}

}  // namespace

struct query_run::thread_work {
  explicit thread_work(const kept_of_matches& what) : now(what) {}

  chunk_room room;
  gathered now;  // of the part that the thread works on
  clock::time_point since;
  unsigned thread = 0;
  // Reading the clock takes as long as a cheap filter takes for some items: it is read every few blocks, as long as
  // that many take a small part of `every`.
  unsigned blocks = 0;  // since the clock was read
  unsigned blocks_between = 1;
  clock::time_point read_at;  // the clock
};

query_run::query_run(kept_query& q, const run_options& how)
    : q_(&q),
      where_(q.where()),
      ranges_(where_.program().key_ranges()),
      how_(how),
      holds_(q.catalog().store().take_pin()),
      core_(&holds_.core()),
      state_(&q.head().state),
      counts_keys_(how.keys || how.keys_per_second != 0),
      begun_(clock::now()),
      worked_before_us_(q.catalog().space().read(q.head().worked_us).value_or(0)),
      reported_(begun_) {
  if (how_.every.count() < 0 || (how_.time && how_.time->count() < 0)) {
    raise(errc::invalid_argument, "a query cannot run for a negative time");
  }
  if (how_.every.count() == 0) {
    const bool block_device = core_->the_pool().durability().medium == medium::block_device;
    how_.every = std::chrono::milliseconds(block_device ? 100 : 1);
  }
  core_->check_readable(q.definition().at);
  how_.threads = thread_count(how_.threads);
  links_ = &in_key_order(*core_, kept_, how_.threads);
  begun_run_ = q.catalog().begin_run(q);
  if (q.phase() == query_phase::open) open_word_ = state_->load(std::memory_order_relaxed);  // relaxed: a hint
}

query_run::~query_run() {
  if (!begun_run_) return;
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(clock::now() - begun_).count();
  q_->catalog().space().write(q_->head().worked_us, worked_before_us_ + static_cast<std::uint64_t>(us));
  q_->catalog().end_run(*q_);
}

void query_run::go() {
  if (!begun_run_) return;  // it is finished
  const bool by_pages = core_->the_pool().persist().by_pages();
  std::thread publisher;
  if (by_pages) {
    try {
      publisher = library_thread([this] { publish_until_done(); });
    } catch (const error& e) {
      if (e.code() != errc::io) throw;  // without the thread all is published at the end
    }
  }
  std::exception_ptr failed;
  try {
    const auto parts = static_cast<unsigned>(q_->definition().parts());
    run_on_threads(std::min(how_.threads, parts), [this](unsigned thread) {
      try {
        work(thread);
      } catch (...) {
        stop();
        throw;
      }
    });
  } catch (...) {
    failed = std::current_exception();
  }
  if (by_pages) {
    {
      const std::scoped_lock lock(publishing_);
      all_ended_ = true;
    }
    ended_.notify_all();
    if (publisher.joinable()) publisher.join();
    publish_once();  // throws what a failed sync means
  }
  if (q_->final_rows().complete) {
    const recovering_lock shared = q_->catalog().space().hold();
    core_->the_pool().persist().sync();
    const query_phase now = q_->phase();  // cancelled and dropped ones stay so
    if (now == query_phase::open || now == query_phase::pausing) {
      q_->catalog().set_phase(q_->head_place(), query_phase::finished);
    }
  }
  if (failed) std::rethrow_exception(failed);
  report(true);
}

void query_run::work(unsigned thread) {
  thread_work own(q_->kept());
  own.thread = thread;
  own.room.near = thread;
  query_space& space = q_->catalog().space();
  // relaxed: a counter; what a thread does to its part is its own until it ends
  for (std::size_t p; (p = next_part_.fetch_add(1, std::memory_order_relaxed)) < q_->definition().parts();) {
    if (should_stop()) return;
    const auto number = static_cast<std::uint16_t>(p);
    if (const auto done = space.read(part_line(space, q_->head_place(), number).complete); done && *done != 0) continue;
    const auto part = std::make_shared<part_work>(space, q_->head_place(), number);
    part->log.recover(true);
    if (!part->log.is_complete()) {
      if (core_->the_pool().persist().by_pages()) {
        const std::scoped_lock lock(publishing_);
        unpublished_.push_back(part);
      }
      const bool ended = with_engine(*core_, [&](const auto& engine) { return walk(engine, *part, own); });
      if (!ended) return;
    }
    if (core_->the_pool().persist().by_pages()) {
      const std::scoped_lock lock(publishing_);
      part->complete = true;
      if (part->log.pending() != null_link && std::ranges::find(unpublished_, part) == unpublished_.end()) {
        unpublished_.push_back(part);
      }
    } else {
      finish_part(*part);
    }
  }
}

/// What of the part's keys may match and was not examined yet. `after` keeps the first bound valid.
std::vector<scan_bounds> query_run::left_of(const part_work& part, std::string& after) const {
  const key_bounds part_bounds = q_->definition().bounds_of(part.part);
  const auto position = part.log.position();
  if (position) {
    after.assign(*position);
    after.push_back('\0');  // the first key behind it
  } else {
    after = part_bounds.from.value_or("");
  }
  std::vector<scan_bounds> all;
  for (const key_range& range : ranges_) {
    scan_bounds b;
    b.from = std::max<std::string_view>(range.from, after);
    b.bounded_above = range.to.has_value();
    if (range.to) b.to = *range.to;
    // the borders of the definition live as long as the query
    const auto& borders = q_->definition().borders;
    if (part.part < borders.size() && (!b.bounded_above || borders[part.part] < b.to)) {
      b.to = borders[part.part];
      b.bounded_above = true;
    }
    b.of_closed_version = true;
    if (!b.beyond(b.from)) all.push_back(b);
  }
  return all;
}

/// Examines what is left of the part; false if it was stopped before the end.
template <class Engine>
bool query_run::walk(const Engine& engine, part_work& part, thread_work& own) {
  std::string after;
  const std::vector<scan_bounds> left = left_of(part, after);
  own.now.begin(part.log);
  own.since = own.read_at = clock::now();
  matching<Engine> found(engine, q_->definition().at, where_.program(), needs_of_kept(q_->kept()));
  bool stopped = false;
  const auto give_up = [&] {
    // what was examined before the failure is kept
    if (own.now.is_whole() && own.now.examined() > 0) write(part, own, false);
  };
  try {
    for (const scan_bounds& bounds : left) {
      own.now.begin_range();
      for_each_block(engine, *links_, bounds, [&](const walked_entries& entries) {
        const bool all_taken = take(found, engine, entries, part, own);
        if (all_taken) own.now.move_to(engine.key_of(entries.back()));  // behind keys that are not there, too
        stopped = !all_taken || should_stop();
        if (!stopped && !how_.every_item && due(own)) write(part, own, false);
        if (own.thread == 0) report(false);
        return !stopped;
      });
      if (stopped) break;
    }
  } catch (...) {
    give_up();
    throw;
  }
  if (!stopped || own.now.examined() > 0) write(part, own, !stopped);
  if (stopped) part.log.note_evaluated(part.log.examined_so_far());  // no more has begun
  return !stopped;
}

/// Asks the filter about the keys of a block that are there in the version; false if the run is to stop.
template <class Engine>
bool query_run::take(matching<Engine>& found, const Engine& engine, const walked_entries& entries, part_work& part,
                     thread_work& own) {
  std::size_t done = 0;
  bool is_reading = true;
  try {
    return found.block(entries, how_.every_item ? 1 : rows_max, [&](const rows& block, const auto&) {
      is_reading = false;
      ask(block, found.memory(), part, own);
      done += block.size;
      is_reading = true;
      return !how_.every_item || !should_stop();
    });
  } catch (const error& e) {
    if (!is_reading || e.code() != errc::damaged) throw;
  }
  take_undamaged(found, engine, entries, done, part, own);
  return !should_stop();
}

/// Reads entry by entry, since the record of one is damaged. The first `done` keys that are there were examined.
template <class Engine>
void query_run::take_undamaged(matching<Engine>& found, const Engine& engine, const walked_entries& entries,
                               std::size_t done, part_work& part, thread_work& own) {
  for (const link entry : entries) {
    const std::string_view key = engine.key_of(entry);  // a key that is damaged itself cannot be passed
    bool is_reading = true;
    try {
      found.block({engine, {&entry, 1}}, 1, [&](const rows& block, const auto&) {
        is_reading = false;
        if (done > 0) {
          --done;
        } else {
          ask(block, found.memory(), part, own);
        }
        return true;
      });
      continue;
    } catch (const error& e) {
      if (!is_reading || e.code() != errc::damaged) throw;
      const error told(errc::damaged, fmt::format("query {}, key {} of version {}: {}", shown(q_->definition().name),
                                                  shown(key), q_->definition().at, e.message()));
      fail(key, std::make_exception_ptr(told), true, how_.skip_damaged, part, own);
    }
  }
}

void query_run::ask(const rows& block, scratch& memory, part_work& part, thread_work& own) {
  part.log.note_evaluated(part.log.examined_so_far() + own.now.examined() + block.size);
  row_mask matches = 0;
  std::exception_ptr why;
  try {
    matches = where_.program().test(block, memory);
  } catch (...) {
    if (!memory.was_calling()) throw;
    why = std::current_exception();
  }
  if (why) {
    ask_one_by_one(block, why, memory, part, own);
  } else {
    keep(block, matches, memory, part, own);
  }
  if (counts_keys_) {
    hold_to_rate(examined_.fetch_add(block.size, std::memory_order_relaxed) + block.size);  // relaxed: a count
  }
  if (how_.every_item && own.now.examined() > 0) write(part, own, false);
}

/// A function of the caller threw: which of the items is it of?
void query_run::ask_one_by_one(const rows& block, const std::exception_ptr& why, scratch& memory, part_work& part,
                               thread_work& own) {
  row_mask matches = 0;
  std::size_t kept = 0;  // rows before this one are done with
  for (std::size_t i = 0; i < block.size; ++i) {
    const rows one = rows_of(block, i, 1);
    std::exception_ptr thrown;
    try {
      if (block.size == 1) std::rethrow_exception(why);
      matches |= where_.program().test(one, memory) << i;
    } catch (...) {
      if (!memory.was_calling()) throw;
      thrown = std::current_exception();
    }
    if (!thrown) continue;
    if (i > kept) keep(rows_of(block, kept, i - kept), matches >> kept, memory, part, own);
    kept = i + 1;
    fail(block.keys[i], thrown, false, how_.skip_failed, part, own);
  }
  if (kept == 0) fail(block.keys[0], why, false, false, part, own);  // of none alone
  if (kept < block.size) keep(rows_of(block, kept, block.size - kept), matches >> kept, memory, part, own);
}

/// Passes the key if it is to be skipped; otherwise the part stops before it, and says why.
void query_run::fail(std::string_view key, const std::exception_ptr& why, bool is_damage, bool skips, part_work& part,
                     thread_work& own) {
  if (own.now.examined() > 0) write(part, own, false);
  chunk_note note{.damaged = is_damage, .key = {}, .message = message_of(why)};
  if (skips) {
    part.log.append(own.now.skipping(key, note.encoded()), own.room);
    return;
  }
  note.key = key;
  try {
    part.log.note_failure(note, own.room);
  } catch (const std::exception&) {  // no space, for example: what was thrown says more
  }
  std::rethrow_exception(why);
}

/// Keeps what is asked for of a block's matches: at once, or row by row where the rows are long.
void query_run::keep(const rows& block, row_mask matches, scratch& memory, part_work& part, thread_work& own) {
  if (own.now.bytes_for(block, matches) <= chunk_bytes_max / 2) {
    own.now.add(block, 0, block.size, matches, memory);
    if (own.now.bytes() >= chunk_bytes_max) write(part, own, false);
    return;
  }
  for (std::size_t i = 0; i < block.size; ++i) {
    const row_mask own_bit = matches & row_mask{1} << i;
    std::exception_ptr too_long;
    try {
      if (own_bit != 0) own.now.require_fit(block, i, memory);
    } catch (const error&) {
      too_long = std::current_exception();
    }
    if (too_long) {
      fail(block.keys[i], too_long, false, how_.skip_failed, part, own);
      continue;
    }
    const bool is_full = own.now.bytes() + own.now.bytes_for(block, own_bit) > chunk_bytes_max;
    if (is_full && own.now.bytes() > 0) write(part, own, false);
    own.now.add(block, i, 1, matches, memory);
  }
}

bool query_run::due(thread_work& own) const {
  constexpr unsigned blocks_between_max = 8;
  if (own.now.examined() == 0) return false;
  if (own.now.examined() >= chunk_keys_max) return true;
  if (++own.blocks < own.blocks_between) return false;
  const auto now = clock::now();
  const bool is_fast = (now - own.read_at) * 32 < how_.every;
  own.blocks_between = is_fast ? std::min(own.blocks_between * 2, blocks_between_max) : 1;
  own.blocks = 0;
  own.read_at = now;
  return now - own.since >= how_.every;
}

void query_run::write(part_work& part, thread_work& own, bool is_last) {
  chunk_content content = own.now.content(is_last);
  content.begins = how_.every_item && !is_last ? 1 : 0;
  part.log.append(content, own.room);
  own.now.clear();
  if (how_.every_item) return;
  own.since = own.read_at = clock::now();
  own.blocks = 0;
}

/// Once its last chunk is durable.
void query_run::finish_part(part_work& part) const {
  query_space& space = q_->catalog().space();
  space.write(part_line(space, q_->head_place(), part.part).complete, part.log.rows_so_far() + 1);
}

bool query_run::should_stop() {
  // relaxed: a hint, a word that is read again if it changed, and a count that only this run changes
  if (stopped_.load(std::memory_order_relaxed)) return true;
  const bool time_up = how_.time && clock::now() - begun_ >= *how_.time;
  const bool keys_up = how_.keys && examined_.load(std::memory_order_relaxed) >= *how_.keys;
  if (!time_up && !keys_up &&
      (state_->load(std::memory_order_relaxed) == open_word_ || q_->phase() == query_phase::open))
    return false;
  stop();
  return true;
}

/// Waits until so many keys may have been examined.
void query_run::hold_to_rate(std::uint64_t examined) {
  if (how_.keys_per_second == 0) return;
  const auto due_at = begun_ + std::chrono::nanoseconds(static_cast<std::int64_t>(
                                   static_cast<double>(examined) * 1e9 / static_cast<double>(how_.keys_per_second)));
  constexpr auto slice = std::chrono::milliseconds(5);
  for (auto now = clock::now(); now < due_at && !should_stop(); now = clock::now()) {
    std::this_thread::sleep_for(std::min<clock::duration>(slice, due_at - now));
  }
}

void query_run::report(bool always) {
  if (!how_.on_progress) return;
  constexpr auto interval = std::chrono::milliseconds(100);
  const auto now = clock::now();
  if (!always && now - reported_ < interval) return;
  reported_ = now;
  how_.on_progress(q_->progress());
}

// ---- Media that are synced by pages ----

/// A sync makes durable what was appended before it began; then the words that show it are stored.
void query_run::publish_once() {
  std::vector<std::pair<std::shared_ptr<part_work>, link>> covered;
  std::vector<bool> complete;
  {
    const std::scoped_lock lock(publishing_);
    for (const auto& part : unpublished_) {
      covered.emplace_back(part, part->log.pending());
      complete.push_back(part->complete);
    }
  }
  if (covered.empty()) return;
  core_->the_pool().persist().sync();
  for (std::size_t i = 0; i < covered.size(); ++i) {
    covered[i].first->log.publish(covered[i].second);
    if (complete[i]) finish_part(*covered[i].first);
  }
  const std::scoped_lock lock(publishing_);
  for (std::size_t i = 0; i < covered.size(); ++i) {
    if (complete[i]) std::erase(unpublished_, covered[i].first);
  }
}

void query_run::publish_until_done() {
  std::unique_lock lock(publishing_);
  while (!ended_.wait_for(lock, how_.every, [this] { return all_ended_; })) {
    lock.unlock();
    try {
      publish_once();
    } catch (...) {  // a failed sync, or no memory: go() publishes the rest, and meets it too
      stop();
      return;
    }
    lock.lock();
  }
}

}  // namespace icecore::detail
