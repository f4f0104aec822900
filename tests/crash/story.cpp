#include "story.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>

#include "base/threads.hpp"
#include "beside_story.hpp"
#include "feed_story.hpp"
#include "fibers.hpp"
#include "kept_story.hpp"
#include "planner.hpp"

namespace icecore::crash {
namespace {

// ---- Running it ----

/// One writer writes to all files: as the threads do whose turn it is by their numbers.
void spread(const story_options& how, std::uint64_t number) {
  if (how.writers == 1 && how.files > 1) icecore::detail::own_thread_number = static_cast<unsigned>(number % how.files);
}

class runner {
 public:
  runner(story& into, const std::string& path, const std::vector<planned>& plan)
      : into_(into), path_(path), plan_(plan), gone_(into.gone.begin(), into.gone.end()), reader_(path, into.how) {}

  void open() {
    options opening = opening_options(into_.how, machine::recorded);
    opening.publish_settled = into_.how.beside && machine::get().recording();
    store_.emplace(path_, opening);
  }
  /// Notes the keys that the story begins with.
  void look() {
    for (const std::string_view key : store_->keys()) there_before_.emplace(key);
  }
  /// In stories with retention: what the store has behind an operation, and what the version shows that it has closed.
  void look_at_content(done_operation& done) {
    done.content = content_ = content_sum(*store_);
    done.retention = retention_ = retention_sum(*store_);
    if (!done.closes) return;
    done.state = state_sum(store_->at(done.belongs_to));
    known_.push_back({done.belongs_to, done.state, false});
  }
  /// Likewise what a crash has left of the versions that were closed before it.
  void look_at_closed_versions() {
    for (closed_version& then : into_.closed) {
      if (then.or_else && !then.may_be_lost) {
        then.expired = store_->is_expired(then.at);
        if (!then.expired) then.sum = state_sum(store_->at(then.at));
      }
      then.or_else.reset();
    }
    known_ = into_.closed;
  }
  /// What the story begins with of queries, as the opened store shows them: durable from now on.
  void look_at_queries() {
    look_at(*store_, into_.queries);
    look_at(*store_, into_.feeds);
  }
  [[nodiscard]] store& opened() { return *store_; }

  /// In stories with retention: the keys of which a compaction that erased all has left no byte.
  void note_gone(done_operation& done, const std::optional<compaction_report>& packed) {
    if (packed && packed->packed && packed->erased) {
      const auto keys = store_->keys();
      for (const std::string& key : secrets()) {
        const auto names_it = [&](const asked_to_forget& asked) { return asked.names(key); };
        const bool named =
            std::ranges::any_of(into_.requests, names_it) ||
            std::ranges::any_of(into_.operations, [&](const auto& o) { return o.forgets && names_it(*o.forgets); });
        if (named && std::ranges::find(keys, key) == keys.end()) gone_.insert(key);
      }
    }
    done.gone.assign(gone_.begin(), gone_.end());
  }

  void run(unsigned number, const planned& p) {
    done_operation& done = into_.operations[number];
    for (const auto& w : p.writes) gone_.erase(w.key);
    for (const std::string& key : p.forgotten.keys) gone_.erase(key);
    done.gone_amid.assign(gone_.begin(), gone_.end());
    std::optional<before_compaction> before;
    if (into_.how.expires && (p.what == planned::kind::pack || p.what == planned::kind::forget))
      before.emplace(*store_);
    machine::get().note({event::kind::begin, 0, 0, 0, number});
    if (into_.writes) {
      into_.writes->operations[number].writer = fibers::current();
      into_.writes->operations[number].called = ++calls_;
    }
    spread(into_.how, number);
    store& s = *store_;
    std::optional<compaction_report> packed;
    bool packs_by_ranges = false;
    const bool tags_are_durable = into_.how.durability == durability::tag;
    switch (p.what) {
      case planned::kind::insert:
        done.what = "insert " + p.writes[0].key;
        done.belongs_to = s.insert(p.writes[0].key, *p.writes[0].value);
        break;
      case planned::kind::insert_new:
        done.what = "insert new " + p.writes[0].key;
        done.belongs_to = s.insert_new(p.writes[0].key, *p.writes[0].value).value_or(0);
        if (done.belongs_to == 0) done.required = only_writer_of(p.writes[0].key, number);
        break;
      case planned::kind::remove:
        done.what = "remove " + p.writes[0].key;
        done.belongs_to = s.remove(p.writes[0].key).value_or(0);
        break;
      case planned::kind::batch: {
        done.what = "batch of " + std::to_string(p.writes.size());
        batch together;
        for (const auto& w : p.writes) w.value ? together.insert(w.key, *w.value) : together.remove(w.key);
        done.belongs_to = s.apply(together);
        break;
      }
      case planned::kind::batch_new: {
        done.what = "batch with conditions of " + std::to_string(p.writes.size());
        batch together;
        for (const auto& w : p.writes) w.value ? together.insert_new(w.key, *w.value) : together.remove(w.key);
        done.belongs_to = s.apply_if(together).value_or(0);
        break;
      }
      case planned::kind::tag:
        done.what = "tag";
        done.belongs_to = s.tag();
        done.durable_point = tags_are_durable;
        done.closes = true;
        break;
      case planned::kind::label:
        done.what = "tag '" + p.name + "'";
        done.belongs_to = s.tag({.name = p.name, .note = p.note, .time_ns = first_time(into_.depth) + number});
        done.durable_point = tags_are_durable;
        done.closes = true;
        break;
      case planned::kind::sync:
        done.what = "sync";
        done.belongs_to = s.clock();
        s.sync();
        done.leaves_open = s.clock() == done.belongs_to;  // nothing was written in it
        done.durable_point = !into_.how.keeps_each_write();
        break;
      case planned::kind::find:
        done.what = "find " + p.writes[0].key;
        if (const auto found = newest_of(s, p.writes[0].key, number)) done.required = writer_of(*found, into_.depth);
        if (into_.how.keeps_versions()) {  // what it showed is covered by a sync
          done.belongs_to = s.durable_version();
          done.durable_point = true;
        }
        break;
      case planned::kind::query:
        run_query(s, into_, number, p.of_query);
        break;
      case planned::kind::feed:
        run_feed(s, into_, feeds_, number, p.of_feed);
        break;
      case planned::kind::reopen:
        close(done);
        done.what = "close and open";
        open();
        break;
      case planned::kind::pack: {
        const std::uint64_t a_few_ranges = std::max<std::uint64_t>(1 + number % 32, 4 * s.stats().keys);
        const compaction_options how{.whole = number % 4 == 1,
                                     .threads = 1,
                                     .bytes_at_once = number % 5 < 2 ? a_few_ranges : 0,
                                     .compression = number % 3 == 0 ? compression::zstd : compression::none,
                                     .on_progress = {}};
        packs_by_ranges = how.bytes_at_once != 0;
        if (p.while_open) {
          done.what = "compact while it is open";
          done.belongs_to = s.clock();
          if (into_.how.mixes) {
            compact_beside_others(how);
            break;
          }
          packed = s.compact(how);
          done.leaves_open = s.clock() == done.belongs_to;  // nothing was written in it
          done.durable_point = !into_.how.keeps_each_write();
          break;
        }
        close(done);
        done.what = "close, compact and open";
        packed = compact(path_, opening_options(into_.how, machine::recorded), how);
        open();
        break;
      }
      case planned::kind::retain:
        done.what = "set the retention";
        s.set_retention(p.kept);
        break;
      case planned::kind::hold:
        hold(done, p);
        break;
      case planned::kind::look:
        done.what = reader_.step(s, p.held_back);
        break;
      case planned::kind::forget: {
        done.what = "forget";
        const forget_report report = s.forget({.keys = p.forgotten.keys, .prefixes = p.forgotten.prefixes});
        done.forgets = p.forgotten;
        done.forgets->up_to = report.up_to;
        done.belongs_to = s.find_tag(report.tag)->version;
        done.durable_point = tags_are_durable;
        done.closes = true;
        break;
      }
    }
    if (into_.writes) note_writes(number, p);
    machine::get().note({event::kind::end, 0, 0, 0, number});
    if (packed) reader_.note_packed();
    if (!into_.how.expires) return;
    if (packed && packed->packed && !reader_.is_open() && !packed->erased)
      throw std::logic_error("a compaction that nobody is beside has erased nothing");
    if (packed) {
      before->judge(*store_, *packed, number % 4 == 1, known_);
      if (packs_by_ranges && packed->packed) done.between_changes = before->contents_between_changes(*store_);
      done.packed = known_;
    } else if (before) {
      done.between = before->contents_of_forgetting(*store_);
    }
    note_gone(done, packed);
    look_at_content(done);
  }

  void end_reading() { reader_.close(); }

  /// Ends the store as an operation of its own.
  void close(unsigned number) {
    machine::get().note({event::kind::begin, 0, 0, 0, number});
    close(into_.operations[number]);
    into_.operations[number].what = "close";
    into_.operations[number].content = content_;
    into_.operations[number].retention = retention_;
    into_.operations[number].gone_amid = into_.operations[number].gone = {gone_.begin(), gone_.end()};
    machine::get().note({event::kind::end, 0, 0, 0, number});
  }

  /// By a find, or as the first of the key's history: what either shows is durable.
  [[nodiscard]] static std::optional<std::string> newest_of(const store& s, const std::string& key, unsigned number) {
    std::optional<std::string> newest;
    if (number % 3 != 0) {
      if (const auto found = s.find(key)) newest = found->bytes();
    } else {
      for (const change& c : s.history(key)) {
        if (c.value) newest = *c.value;
        break;
      }
    }
    return newest;
  }
  /// The operation (a bit) that wrote a value.
  [[nodiscard]] static std::uint64_t writer_of(std::string_view value, unsigned depth) {
    const std::size_t colon = value.find(':');
    if (colon == std::string_view::npos || value[0] != planner::mark_of(depth)) return 0;  // from before the story
    return std::uint64_t{1} << std::stoul(std::string(value.substr(1, colon - 1)));
  }
  /// The operation `number` of a story makes its tag at this time and `number`.
  [[nodiscard]] static std::int64_t first_time(unsigned depth) { return 1'000 * (std::int64_t{depth} + 1); }

 private:
  /// Holds a version that can be read, or the present; or ends the hold of that name.
  void hold(done_operation& done, const planned& p) {
    store& s = *store_;
    const auto all = s.held_versions();
    if (std::ranges::find(all, p.name, &held_version::name) != all.end()) {
      done.what = "release '" + p.name + "'";
      s.release_version(p.name);
      return;
    }
    std::optional<version> at;
    if (p.held_back != 0 && s.clock() > p.held_back) {
      const version wanted = s.clock() - p.held_back;
      if (!s.is_expired(wanted) && !s.lost_versions().contains(wanted)) at = wanted;
    }
    done.what = "hold a version as '" + p.name + "'";
    done.belongs_to = s.clock();
    const version durable = s.durable_version();
    const version held = s.hold_version(p.name, at);
    done.what += ": " + std::to_string(held);
    done.leaves_open = s.clock() == done.belongs_to;
    done.durable_point = !into_.how.keeps_each_write() && durable < held;  // then it syncs
  }

  /// Of the first writer: others go on meanwhile.
  void compact_beside_others(const compaction_options& how) {
    store& s = *store_;
    const version from = s.clock();
    const retention policy = s.retention();
    std::vector<version> kept;
    if (policy.tagged) {
      for (const tag_info& t : s.tags()) kept.push_back(t.version);
    }
    for (const held_version& h : s.held_versions()) kept.push_back(h.version);
    const auto before = s.expired_versions();
    try {
      static_cast<void>(s.compact(how));
    } catch (const error& e) {
      if (e.code() != errc::query_busy) throw;  // queries were made all the time
    }
    for (const version v : kept) {
      const bool had = std::ranges::any_of(before, [v](const auto& r) { return r.first <= v && v < r.end; });
      if (!had && s.is_expired(v)) throw std::logic_error("a compaction let version " + std::to_string(v) + " expire");
    }
    const auto is_of_newest = [&](version v) { return v >= from || from - v <= policy.newest; };
    for (version v = from > policy.newest ? from - policy.newest : 1; v < from && policy.newest > 0; ++v) {
      const bool had = std::ranges::any_of(before, [v](const auto& r) { return r.first <= v && v < r.end; });
      if (is_of_newest(v) && !had && s.is_expired(v) && s.clock() == from)
        throw std::logic_error("a compaction let version " + std::to_string(v) + " of the newest expire");
    }
    if (policy.keeps_all() && s.expired_versions().size() > before.size())
      throw std::logic_error("a compaction let versions expire that are all to stay");
  }

  /// What the operation has written, by the version that its call returned.
  void note_writes(unsigned number, const planned& p) {
    done_operation& done = into_.operations[number];
    story_writes::operation& all = into_.writes->operations[number];
    all.returned = ++calls_;
    const bool writes = p.what <= planned::kind::batch_new && done.belongs_to != 0;
    for (const auto& w : p.writes) {
      if (writes) all.writes.push_back({.key = w.key, .at = done.belongs_to, .value = w.value});
    }
    done.sum = all.writes.empty() && p.what != planned::kind::label ? 0 : 1;
    if (p.what == planned::kind::pack) done.expired = store_->expired_versions();
    done.sets_retention = p.what == planned::kind::retain || p.what == planned::kind::hold;
    if (done.sets_retention) done.retention = retention_sum(*store_);
    for (const story_write& told : done.of_feed.changes) {
      if (told.value) done.required |= writer_of(*told.value, into_.depth);
    }
  }

  /// The operation (a bit) that must have written a key that is there, if only one can have: it is durable then.
  [[nodiscard]] std::uint64_t only_writer_of(const std::string& key, unsigned number) const {
    std::uint64_t writers = 0;
    for (std::size_t i = 0; i < plan_.size(); ++i) {
      const bool writes = i != number && plan_[i].what != planned::kind::find &&
                          std::ranges::any_of(plan_[i].writes, [&](const auto& w) { return w.key == key && w.value; });
      if (writes) writers |= std::uint64_t{1} << i;
    }
    return there_before_.contains(key) || !std::has_single_bit(writers) ? 0 : writers;
  }

  void close(done_operation& done) {
    done.belongs_to = store_->clock();
    if (into_.how.beside) reader_.close();
    feeds_.close();
    store_->close();
    store_.reset();
    done.durable_point = true;
    done.leaves_open = true;
  }

  story& into_;
  std::string path_;
  const std::vector<planned>& plan_;
  std::set<std::string> gone_;
  std::set<std::string> there_before_;
  std::optional<store> store_;
  feeds_in_use feeds_;  // end before the store does
  reader_beside reader_;
  std::vector<closed_version> known_;
  std::uint64_t content_ = 0;
  std::uint64_t retention_ = 0;
  std::uint64_t calls_ = 0;  // and returns
};

/// In stories that mix: the tags of each operation, and whether the finished store holds what all have written.
void attribute_tags(story& s, const store& finished) {
  for (const tag_info& t : finished.tags()) {
    const std::int64_t number = t.time_ns - runner::first_time(s.depth);
    if (number >= 0) s.writes->operations[static_cast<std::size_t>(number)].tags += tag_sum(t);
  }
  if (auto wrong = judge_writes(finished, *s.writes, {~std::uint64_t{0}}); !wrong.empty())
    throw std::logic_error(wrong + "\n" + content_text(finished));
}

/// Gives each record of the finished store to the operation that wrote it.
void attribute(story& s, const store& finished, const std::vector<planned>& plan,
               const std::map<std::string, std::size_t>& places_before) {
  std::uint64_t before = 0;
  for (const std::string_view key : finished.keys()) {
    std::size_t place = 0;
    std::size_t first = 0;  // one writer alone removes a key: its operations are in the history in their order
    const auto there = places_before.find(std::string(key));
    const std::size_t places = there == places_before.end() ? 0 : there->second;
    for (const change& c : finished.history(key).oldest_first()) {
      const std::uint64_t sum = record_sum(key, place++, c);
      std::uint64_t owner = 0;
      if (c.value) {
        owner = runner::writer_of(*c.value, s.depth);
      } else if (place > places) {
        for (std::size_t i = first; i < plan.size() && owner == 0; ++i) {
          const std::uint64_t bit = std::uint64_t{1} << i;
          const bool removes = std::ranges::any_of(plan[i].writes, [&](const auto& w) {
            return !w.value && w.key == key && plan[i].what != planned::kind::find;
          });
          if (removes && s.operations[i].belongs_to == c.version) owner = bit;
        }
      }
      if (owner != 0) first = static_cast<std::size_t>(std::countr_zero(owner)) + 1;
      if (owner == 0) {
        before += sum;
      } else {
        s.operations[static_cast<std::size_t>(std::countr_zero(owner))].sum += sum;
      }
    }
  }
  for (const tag_info& t : finished.tags()) {
    const std::int64_t number = t.time_ns - runner::first_time(s.depth);
    if (number < 0) {
      before += tag_sum(t);
    } else {
      s.operations[static_cast<std::size_t>(number)].sum += tag_sum(t);
    }
  }
  for (done_operation& o : s.operations) {
    if (o.closes) o.state = state_sum(finished.at(o.belongs_to));
  }
  if (before != s.before_sum) throw std::logic_error("a record of the story belongs to no operation");
}

/// What a story begins with: nothing, or a store that was closed.
void prepare(story& s, planner& plan) {
  machine& m = machine::get();
  m.assign(machine::recorded, {});
  if (!plan.one_in(plan.growing() ? 3 : 24)) {
    {
      store first(machine::path(machine::recorded), opening_options(s.how, machine::recorded));
      for (std::uint64_t i = 0; i < plan.crowd(); ++i)
        first.insert(planner::crowd_key(plan.crowd_descends() ? plan.crowd() - 1 - i : i), "old");
      if (plan.crowd() != 0) first.insert(planner::crowd_key(plan.full_leaf()) + "0", "old");
      if ((s.how.expires || s.how.mixes) && plan.one_in(4)) first.set_retention({.tagged = true});
      const std::uint64_t records = plan.draw(12);
      for (std::uint64_t i = 0; i < records; ++i) {
        spread(s.how, i);
        first.insert("shared-" + std::to_string(plan.draw(4)), "old" + std::string(plan.draw(50), 'o'));
        if (plan.one_in(4)) {
          first.tag({.name = "old-" + std::to_string(i), .time_ns = 1});
        } else if (s.how.packs || (s.how.mixes && plan.one_in(2))) {
          first.tag();
        }
      }
      for (std::uint64_t i = 0; i < plan.tags(); ++i) first.tag({.name = "full-" + std::to_string(i), .time_ns = 1});
      // a segment with room that is nobody's, if both fillers are here, and one that is nearly full: the next records
      // begin another one
      if (plan.growing() && plan.one_in(2)) first.insert("filler", std::string(30'000 + plan.draw(25'000), 'f'));
      if (plan.growing()) {
        if (s.how.packs) first.tag();
        first.insert("filler", std::string(60'000 + plan.draw(3'000), 'f'));
      }
      if (s.how.packs) first.tag();
    }
    if ((s.how.packs || s.how.mixes) && plan.one_in(2)) {
      static_cast<void>(compact(machine::path(machine::recorded), opening_options(s.how, machine::recorded),
                                {.whole = false, .threads = 1, .on_progress = {}}));
    }
    const store again(machine::path(machine::recorded), opening_options(s.how, machine::recorded));
    s.before_sum = content_sum(again);
    s.before_clock = again.clock();
    s.before_retention = retention_sum(again);
  }
  s.before = kept_files(m.left(machine::recorded));
  s.boot = m.boot();
}

}  // namespace

namespace {

/// Runs a plan on the file as it is, recording, and says what each operation did.
void record(story& s, const std::vector<planned>& plan, bool closes) {
  machine& m = machine::get();
  const auto count = static_cast<unsigned>(plan.size());
  s.opening = count;
  const unsigned closing = count + 1;
  s.operations.resize(count + 2);
  s.operations[s.opening].what = "open";
  s.operations[s.opening].gone = s.gone;

  runner run(s, machine::path(machine::recorded), plan);
  m.set_locks(s.how.beside);
  m.start_recording();
  m.note({event::kind::begin, 0, 0, 0, s.opening});
  run.open();
  if (s.seed % 2 == 0) run.look_at_queries();
  if (s.depth > 0) s.before_sum = content_sum(run.opened());
  if (s.depth > 0) s.before_retention = retention_sum(run.opened());
  run.look();
  std::map<std::string, std::size_t> places_before;  // records of each key
  for (const std::string_view key : run.opened().keys()) {
    places_before[std::string(key)] = run.opened().history(key).oldest_first().size();
  }
  m.note({event::kind::end, 0, 0, 0, s.opening});
  if (s.how.mixes) {
    s.writes = std::make_shared<story_writes>(story_writes::behind(run.opened()));
    s.writes->operations.resize(s.operations.size());
    s.before_expired = run.opened().expired_versions();
    s.before_retention = retention_sum(run.opened());
  }
  for (closed_version& then : s.closed) then.may_be_lost = run.opened().lost_versions().contains(then.at);
  if (s.how.expires) {
    run.look_at_closed_versions();
    run.look_at_content(s.operations[s.opening]);
  }
  if (s.how.writers == 1) {
    for (unsigned i = 0; i < count; ++i) run.run(i, plan[i]);
  } else {
    std::vector<std::function<void()>> bodies;
    for (unsigned w = 0; w < s.how.writers; ++w) {
      bodies.push_back([&run, &plan, w, &s] {
        for (std::size_t i = w; i < plan.size(); i += s.how.writers) run.run(static_cast<unsigned>(i), plan[i]);
      });
    }
    random_schedule schedule(s.seed);
    fibers::run(bodies, schedule);
  }
  if (closes) run.close(closing);
  run.end_reading();
  s.events = m.stop_recording();
  m.set_locks(false);
  if (closes) run.open();
  if (s.how.mixes) attribute_tags(s, run.opened());
  if (!s.how.expires && !s.how.mixes) attribute(s, run.opened(), plan, places_before);
  answer_queries(run.opened(), s);
  check_what_was_told(run.opened(), s);
  run.opened().close();
}

}  // namespace

story record_story(const story_options& how, std::uint64_t seed) {
  machine& m = machine::get();
  m.set_device(how.on);
  m.seed(seed);
  m.set_boot(1);
  story s;
  s.how = how;
  s.seed = seed;
  planner planner(how, seed, s.depth);
  prepare(s, planner);
  const unsigned count = how.writers == 1 ? 3 + static_cast<unsigned>(planner.draw(10))
                                          : 2 + static_cast<unsigned>(planner.draw(2 * how.writers + 2));
  std::vector<planned> plan;
  for (unsigned i = 0; i < count; ++i) plan.push_back(planner.next(i, i % how.writers));
  record(s, plan, !planner.one_in(3));
  return s;
}

story record_recovery(const story& of, const left_files& left, std::uint64_t boot, left_by_crash after_power_cut,
                      left_by_crash after_kill, std::uint64_t seed) {
  machine& m = machine::get();
  m.seed(seed);
  m.set_boot(boot);
  m.assign(machine::recorded, left);
  story s;
  s.how = of.how;
  s.how.writers = 1;
  s.seed = seed;
  s.depth = of.depth + 1;
  s.before = kept_files(left);
  s.closed = after_kill.closed;  // the same after both, but for what may be lost
  s.queries = after_kill.queries;
  s.feeds = after_kill.feeds;
  s.requests = after_kill.requests;
  s.gone = after_kill.gone;
  s.before_power_cut = std::move(after_power_cut);
  s.before_kill = std::move(after_kill);
  s.boot = boot;
  planner planner(s.how, seed, s.depth);
  if (s.how.changes_mode) s.how.durability = static_cast<durability>(1 + planner.draw(3));
  const auto count = static_cast<unsigned>(planner.draw(4));
  std::vector<planned> plan;
  for (unsigned i = 0; i < count; ++i) plan.push_back(planner.next(i, 0));
  record(s, plan, planner.one_in(2));
  return s;
}

}  // namespace icecore::crash
