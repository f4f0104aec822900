#include "query/kept/runner.hpp"

#include <algorithm>
#include <thread>

#include "base/raise.hpp"
#include "base/threads.hpp"

namespace icecore::detail {
namespace {

constexpr std::uint32_t chunk_keys_max = 8192;
constexpr std::size_t chunk_bytes_max = std::size_t{128} << 10;

}  // namespace

struct query_run::thread_work {
  chunk_room room;
  gathered now;
  unsigned thread = 0;
};

query_run::query_run(kept_query& q, const run_options& how)
    : q_(&q),
      where_(q.where()),
      ranges_(where_.program().key_ranges()),
      how_(how),
      core_(&q.catalog().core()),
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
  how_.threads = thread_count(how_.threads);
  links_ = &in_key_order(*core_, kept_, how_.threads);
  q.catalog().begin_run(q);
}

query_run::~query_run() {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(clock::now() - begun_).count();
  q_->catalog().space().write(q_->head().worked_us, worked_before_us_ + static_cast<std::uint64_t>(us));
  q_->catalog().end_run(*q_);
}

void query_run::go() {
  const bool by_pages = core_->the_pool().persist().by_pages();
  std::jthread publisher;
  if (by_pages) publisher = std::jthread([this] { publish_until_done(); });
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
    publisher.join();
    publish_once();  // throws what a failed sync means
  }
  if (q_->final_rows().complete) {
    const recovering_lock shared = q_->catalog().space().hold();
    core_->the_pool().persist().sync();
    if (q_->phase() != query_phase::cancelled) q_->catalog().set_phase(q_->head_place(), query_phase::finished);
  }
  if (failed) std::rethrow_exception(failed);
  report(true);
}

void query_run::work(unsigned thread) {
  thread_work own;
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
    if (!b.beyond(b.from)) all.push_back(b);
  }
  return all;
}

/// Examines what is left of the part; false if it was stopped before the end.
template <class Engine>
bool query_run::walk(const Engine& engine, part_work& part, thread_work& own) {
  std::string after;
  const std::vector<scan_bounds> left = left_of(part, after);
  own.now.keys.clear();
  own.now.rows = 0;
  own.now.examined = 0;
  own.now.last_key = {};
  own.now.since = clock::now();
  matching<Engine> found(engine, q_->definition().at, where_.program(), {});
  if (const auto position = part.log.position()) own.now.last_key = *position;
  bool stopped = false;
  const auto give_up = [&] {
    // what was examined before the failure is kept
    if (own.now.examined > 0) write(part, own, false);
  };
  try {
    for (const scan_bounds& bounds : left) {
      for_each_block(engine, *links_, bounds, [&](std::span<const link> entries) {
        const bool all_taken = take(found, entries, part, own);
        if (all_taken) own.now.last_key = engine.key_of(entries.back());  // behind keys that are not there, too
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
  if (!stopped || own.now.examined > 0) write(part, own, !stopped);
  return !stopped;
}

/// Asks the filter about the keys of a block that are there in the version; false if the run is to stop.
template <class Engine>
bool query_run::take(matching<Engine>& found, std::span<const link> entries, part_work& part, thread_work& own) {
  const bool keeps_keys = q_->definition().keeps == query_keeps::keys;
  return found.block(entries, how_.every_item ? 1 : rows_max, [&](const rows& block, const auto& test) {
    part.log.note_evaluated(part.log.examined_so_far() + own.now.examined + block.size);
    const row_mask matches = test();
    for (std::size_t i = 0; i < block.size; ++i) {
      const bool is_match = (matches >> i & 1U) != 0;
      if (is_match && keeps_keys) own.now.keys.add(block.keys[i]);  // first: without memory the key was not examined
      ++own.now.examined;
      own.now.last_key = block.keys[i];
      if (!is_match) continue;
      ++own.now.rows;
      if (own.now.keys.bytes().size() >= chunk_bytes_max) write(part, own, false);
    }
    hold_to_rate(examined_.fetch_add(block.size, std::memory_order_relaxed) + block.size);  // relaxed: a count
    if (how_.every_item) write(part, own, false);
    return !how_.every_item || !should_stop();
  });
}

bool query_run::due(const thread_work& own) const {
  if (own.now.examined == 0) return false;
  return own.now.examined >= chunk_keys_max || clock::now() - own.now.since >= how_.every;
}

void query_run::write(part_work& part, thread_work& own, bool is_last) {
  const bool counts = q_->definition().keeps == query_keeps::count;
  part.log.append({counts ? format::chunk_kind::counted : format::chunk_kind::keys,
                   is_last,
                   own.now.last_key,
                   {},
                   own.now.keys.bytes(),
                   own.now.rows,
                   own.now.examined},
                  own.room);
  const std::string_view last = own.now.last_key;
  own.now.keys.clear();
  own.now.rows = 0;
  own.now.examined = 0;
  own.now.last_key = last;
  if (!how_.every_item) own.now.since = clock::now();
}

/// Once its last chunk is durable.
void query_run::finish_part(part_work& part) const {
  query_space& space = q_->catalog().space();
  space.write(part_line(space, q_->head_place(), part.part).complete, part.log.rows_so_far() + 1);
}

bool query_run::should_stop() {
  // relaxed: a hint, and a count that only this run changes
  if (stopped_.load(std::memory_order_relaxed)) return true;
  const bool time_up = how_.time && clock::now() - begun_ >= *how_.time;
  const bool keys_up = how_.keys && examined_.load(std::memory_order_relaxed) >= *how_.keys;
  if (!time_up && !keys_up && q_->phase() == query_phase::open) return false;
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
