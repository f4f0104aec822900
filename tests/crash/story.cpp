#include "story.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>

#include "base/threads.hpp"
#include "feed_story.hpp"
#include "fibers.hpp"
#include "kept_story.hpp"
#include "pool/format.hpp"

namespace icecore::crash {
namespace {

// ---- What writers do ----

struct planned {
  enum class kind { insert, insert_new, remove, batch, batch_new, tag, label, sync, find, reopen, pack, query, feed };
  kind what;
  planned_query of_query{};
  planned_feed of_feed{};
  struct write {
    std::string key;
    std::optional<std::string> value;  // empty: remove
  };
  std::vector<write> writes;
  tag_options label{};
  std::string name;
  std::string note;
  bool while_open = false;  ///< packs the open store
};

/// Draws the operations of a story.
class planner {
 public:
  planner(const story_options& how, std::uint64_t seed, unsigned depth)
      : how_(how), random_(seed), mark_(mark_of(depth)), closes_first_(depth > 0) {
    large_ = one_in(6);
    growing_ = one_in(24) || how.full_segments;
    keys_ = how.writers == 1 ? 2 + draw(8) : 1 + draw(3);  // several writers are to meet
    if (how.index == index_kind::persistent && (one_in(3) || how.full_nodes)) {
      crowd_ = one_in(6) ? two_levels + draw(14) : one_in(2) ? three_leaves + draw(3) : one_leaf + draw(6);
    }
    if (how.index == index_kind::persistent && (one_in(16) || how.full_tags)) tags_ = block_of_tags - draw(4);
    long_keys_ = how.queries && one_in(6);
  }

  [[nodiscard]] std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  [[nodiscard]] bool one_in(std::uint64_t n) { return draw(n) == 0; }
  [[nodiscard]] bool growing() const noexcept { return growing_; }
  /// Tags that nearly fill a block of their list: new ones begin another one.
  [[nodiscard]] std::uint64_t tags() const noexcept { return tags_; }
  /// Keys that nearly fill a node of the persistent index, or one of its second level: new ones come among them.
  [[nodiscard]] std::uint64_t crowd() const noexcept { return crowd_; }
  /// Keys of one leaf have more in common than those of all of them, if they came in ascending order.
  [[nodiscard]] static std::string crowd_key(std::uint64_t number) {
    constexpr std::uint64_t of_a_leaf = format::index_pairs_max - 1;
    return std::string("crowd-") + static_cast<char>('a' + number / of_a_leaf) + "-of-one-leaf-" +
           std::to_string(100 + number % of_a_leaf);
  }
  /// A key of a leaf that is nearly full: of three, the one between two others.
  [[nodiscard]] std::uint64_t full_leaf() const noexcept {
    return crowd_ >= three_leaves && !crowd_descends() ? three_leaves / 2 : 0;
  }
  /// In descending order leaves are cut in the middle, in ascending order they stay full.
  [[nodiscard]] bool crowd_descends() const noexcept { return crowd_ >= two_levels; }

  planned next(unsigned number, unsigned writer) {
    planned p{};
    // what packing leaves of several records of one version is another content
    if (how_.packs && number % 2 == (closes_first_ ? 0U : 1U)) {
      p.what = one_in(3) ? planned::kind::pack : planned::kind::tag;
      p.while_open = one_in(2);
      return p;
    }
    if (how_.queries && one_in(2)) {
      if (how_.feeds && one_in(2)) {
        p.what = planned::kind::feed;
        p.of_feed = plan_feed([this](std::uint64_t below) { return draw(below); });
        return p;
      }
      p.what = planned::kind::query;
      p.of_query = plan_query([this](std::uint64_t below) { return draw(below); });
      return p;
    }
    constexpr std::uint64_t of_label = 80;
    const std::uint64_t dice = tags_ != 0 && one_in(2) ? of_label : draw(100);
    if (dice < 45) {
      p.what = one_in(5) ? planned::kind::insert_new : planned::kind::insert;
      p.writes.push_back({key(writer, true), value(number)});
    } else if (dice < 57) {
      p.what = planned::kind::remove;
      p.writes.push_back({key(writer, false), std::nullopt});
    } else if (dice < 70) {
      p.what = one_in(4) ? planned::kind::batch_new : planned::kind::batch;
      const std::uint64_t size = 1 + draw(4);
      for (std::uint64_t i = 0; i < size; ++i) {
        const bool removal = one_in(4);
        p.writes.push_back({key(writer, !removal), removal ? std::nullopt : std::optional(value(number))});
      }
    } else if (dice < 80) {
      p.what = planned::kind::tag;
    } else if (dice < 87) {
      p.what = planned::kind::label;
      p.name = one_in(3) ? "" : std::string("tag-") + mark_ + std::to_string(number);
      p.note = one_in(5) ? std::string(4096 + draw(600), 'n') : std::string(draw(30), 'n');
    } else if (dice < 92) {
      p.what = how_.writers == 1 ? planned::kind::sync : planned::kind::tag;
    } else if (dice < 97 || how_.writers > 1) {
      p.what = planned::kind::find;
      p.writes.push_back({key(writer, true), std::nullopt});
    } else {
      p.what = planned::kind::reopen;
    }
    return p;
  }

  /// Values begin with a letter for their story and the number of the operation that writes them.
  [[nodiscard]] static char mark_of(unsigned depth) { return static_cast<char>('a' + depth); }

  [[nodiscard]] std::string value(unsigned number) {
    std::string v = mark_ + std::to_string(number).append(":");
    const std::uint64_t dice = draw(20);
    if (growing_ && dice < 4) return v.append(20'000 + draw(60'000), 'G');
    if (growing_ && dice < 7) return v.append(1'000 + draw(9'000), 'g');
    if (large_ && dice < 5) return v.append(4'090 + draw(400), static_cast<char>('A' + number % 26));
    return v.append(dice < 14 ? draw(24) : draw(300), static_cast<char>('a' + number % 26));
  }

 private:
  /// Keys that all writers write, where removals must be told apart: only by whoever owns the key.
  [[nodiscard]] std::string key(unsigned writer, bool shared) {
    if (shared && crowd_ != 0 && one_in(2)) {
      const std::string beside = crowd_key(one_in(2) ? full_leaf() : draw(crowd_));
      return one_in(4) ? beside : beside + static_cast<char>('a' + draw(26));
    }
    if (shared && (how_.writers == 1 || !one_in(4))) return "shared-" + std::to_string(draw(keys_));
    const std::string own = std::string(1, static_cast<char>('A' + writer)) + std::to_string(draw(keys_));
    if (long_keys_ && one_in(3)) return own + std::string(15'000 + draw(2) * 9'000, 'k');
    return one_in(12) ? own + std::string(40 + draw(80), 'k') : own;
  }

  story_options how_;
  std::mt19937_64 random_;
  char mark_;
  bool closes_first_;  // what was before may have written in the open version
  // Keys that fill about so much.
  static constexpr std::uint64_t one_leaf = 22;
  static constexpr std::uint64_t three_leaves = 78;
  static constexpr std::uint64_t two_levels = 390;
  static constexpr std::uint64_t block_of_tags = 55;

  std::uint64_t keys_;
  std::uint64_t crowd_ = 0;
  std::uint64_t tags_ = 0;
  bool large_;
  bool growing_;
  bool long_keys_;  // chunks of queries with them fill their segments
};

// ---- Running it ----

/// One writer writes to all files: as the threads do whose turn it is by their numbers.
void spread(const story_options& how, std::uint64_t number) {
  if (how.writers == 1 && how.files > 1) icecore::detail::own_thread_number = static_cast<unsigned>(number % how.files);
}

class runner {
 public:
  runner(story& into, const std::string& path, const std::vector<planned>& plan)
      : into_(into), path_(path), plan_(plan) {}

  void open() { store_.emplace(path_, opening_options(into_.how, machine::recorded)); }
  /// Notes the keys that the story begins with.
  void look() {
    for (const std::string_view key : store_->keys()) there_before_.emplace(key);
  }
  /// What the story begins with of queries, as the opened store shows them: durable from now on.
  void look_at_queries() {
    look_at(*store_, into_.queries);
    look_at(*store_, into_.feeds);
  }
  [[nodiscard]] store& opened() { return *store_; }

  void run(unsigned number, const planned& p) {
    done_operation& done = into_.operations[number];
    machine::get().note({event::kind::begin, 0, 0, 0, number});
    spread(into_.how, number);
    store& s = *store_;
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
        const compaction_options how{.whole = number % 4 == 1,
                                     .threads = 1,
                                     .compression = number % 3 == 0 ? compression::zstd : compression::none,
                                     .on_progress = {}};
        if (p.while_open) {
          done.what = "compact while it is open";
          done.belongs_to = s.clock();
          static_cast<void>(s.compact(how));
          done.leaves_open = s.clock() == done.belongs_to;  // nothing was written in it
          done.durable_point = !into_.how.keeps_each_write();
          break;
        }
        close(done);
        done.what = "close, compact and open";
        static_cast<void>(compact(path_, opening_options(into_.how, machine::recorded), how));
        open();
        break;
      }
    }
    machine::get().note({event::kind::end, 0, 0, 0, number});
  }

  /// Ends the store as an operation of its own.
  void close(unsigned number) {
    machine::get().note({event::kind::begin, 0, 0, 0, number});
    close(into_.operations[number]);
    into_.operations[number].what = "close";
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
    feeds_.close();
    store_->close();
    store_.reset();
    done.durable_point = true;
    done.leaves_open = true;
  }

  story& into_;
  std::string path_;
  const std::vector<planned>& plan_;
  std::set<std::string> there_before_;
  std::optional<store> store_;
  feeds_in_use feeds_;  // end before the store does
};

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
      const std::uint64_t records = plan.draw(12);
      for (std::uint64_t i = 0; i < records; ++i) {
        spread(s.how, i);
        first.insert("shared-" + std::to_string(plan.draw(4)), "old" + std::string(plan.draw(50), 'o'));
        if (plan.one_in(4)) {
          first.tag({.name = "old-" + std::to_string(i), .time_ns = 1});
        } else if (s.how.packs) {
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
    if (s.how.packs && plan.one_in(2)) {
      static_cast<void>(compact(machine::path(machine::recorded), opening_options(s.how, machine::recorded),
                                {.whole = false, .threads = 1, .on_progress = {}}));
    }
    const store again(machine::path(machine::recorded), opening_options(s.how, machine::recorded));
    s.before_sum = content_sum(again);
    s.before_clock = again.clock();
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

  runner run(s, machine::path(machine::recorded), plan);
  m.start_recording();
  m.note({event::kind::begin, 0, 0, 0, s.opening});
  run.open();
  if (s.seed % 2 == 0) run.look_at_queries();
  if (s.depth > 0) s.before_sum = content_sum(run.opened());
  run.look();
  std::map<std::string, std::size_t> places_before;  // records of each key
  for (const std::string_view key : run.opened().keys()) {
    places_before[std::string(key)] = run.opened().history(key).oldest_first().size();
  }
  m.note({event::kind::end, 0, 0, 0, s.opening});
  for (closed_version& then : s.closed) then.may_be_lost = run.opened().lost_versions().contains(then.at);
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
  s.events = m.stop_recording();
  if (closes) run.open();
  attribute(s, run.opened(), plan, places_before);
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
