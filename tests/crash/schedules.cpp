// icecore_schedules: interleavings of writers of one store, each judged by whether an order explains it.
//
// Scenarios (scenarios.hpp) of two writers with two operations each are run in all interleavings (exhaustive.hpp), or,
// where these are too many, in some and in others with few changes of writers (priorities.hpp); larger ones at random
// from a seed. After each, the answers and the end must have an order (orders.hpp), and the store must verify.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <stdexcept>

#include "base/threads.hpp"
#include "content.hpp"
#include "exhaustive.hpp"
#include "machine.hpp"
#include "memory_orders.hpp"
#include "orders.hpp"
#include "pool/format.hpp"
#include "priorities.hpp"
#include "scenarios.hpp"
#include "store/core.hpp"

namespace icecore::crash {
namespace {

/// With what each run of a scenario begins.
struct beginning {
  std::vector<std::byte> file;
  all_histories there;
};

all_histories histories_of(const store& of) {
  all_histories all;
  for (const std::string_view key : of.keys()) {
    auto& history = all[std::string(key)];
    for (const change& c : of.history(key).oldest_first()) {
      history.emplace_back(c.version, c.value ? std::optional<std::string>(*c.value) : std::nullopt);
    }
    if (history.empty()) all.erase(std::string(key));
  }
  return all;
}

/// What a scan shows, each key behind the one before.
answered::items shown_by(const snapshot& then) {
  answered::items items;
  for (const auto& [key, value] : then.range()) {
    if (!items.empty() && key <= items.rbegin()->first)
      throw std::runtime_error("a scan shows " + std::string(key) + " behind " + items.rbegin()->first);
    items.emplace(key, value);
  }
  return items;
}

/// Operations of one run, on a store that is opened anew for each.
class run {
 public:
  explicit run(const scenario& s)
      : scenario_(s), store_(machine::path(machine::checked), opening_options(s.how, machine::checked)) {}

  /// `loads`: a seed, if they may show older values.
  void go(const all_histories& before, schedule& how, std::optional<std::uint64_t> loads) {
    const version clock = store_.clock();
    std::size_t count = 0;
    for (const auto& w : scenario_.writers) count += w.size();
    operations_.resize(count);
    std::vector<std::function<void()>> bodies;
    std::size_t first = 0;
    for (const auto& plan : scenario_.writers) {
      bodies.push_back([this, &plan, first] {
        for (std::size_t i = 0; i < plan.size(); ++i) call(plan[i], operations_[first + i]);
      });
      first += plan.size();
    }
    memory_orders::begin(static_cast<unsigned>(bodies.size()), loads);
    fibers::run(bodies, how);
    memory_orders::end();
    // Where a crash has cut off a write, a reader looks at a place that a writer makes anew, and then at the head again
    // (H8): the only race there is.
    if (!scenario_.cut_off && !memory_orders::race().empty())
      throw std::runtime_error(memory_orders::race() + "\n" + description());
    if (!has_order(before, clock, with_syncs_of_readers(), histories()))
      throw std::runtime_error("no order explains\n" + description());
    if (scenario_.how.deferred) require_durable();
    for (const std::string& wrong : store_.core().index().check())
      throw std::runtime_error("index: " + wrong + "\n" + description());
    const auto report = store_.verify();
    if (!report.ok()) throw std::runtime_error("verify: " + report.damages.front().what + "\n" + description());
  }

 private:
  void call(const planned& p, answered& a) {
    using kind = answered::kind;
    a.what = p.what;
    a.writes = p.writes;
    a.expected = p.expected;
    a.called = ++moment_;
    memory_orders::called();
    switch (p.what) {
      case kind::insert:
        a.belongs_to = store_.insert(p.writes[0].key, *p.writes[0].value);
        break;
      case kind::remove:
        a.belongs_to = store_.remove(p.writes[0].key).value_or(0);
        break;
      case kind::batch: {
        batch together;
        for (const auto& w : p.writes) w.value ? together.insert(w.key, *w.value) : together.remove(w.key);
        a.belongs_to = store_.apply(together);
        break;
      }
      case kind::insert_new:
        a.belongs_to = store_.insert_new(p.writes[0].key, *p.writes[0].value).value_or(0);
        break;
      case kind::replace:
        a.belongs_to = store_.replace(p.writes[0].key, *p.writes[0].value, p.expected).value_or(0);
        break;
      case kind::batch_new: {
        batch together;
        for (const auto& w : p.writes) together.insert_new(w.key, *w.value);
        a.belongs_to = store_.apply_if(together).value_or(0);
        break;
      }
      case kind::find:
        if (const auto found = store_.find(p.writes[0].key)) a.found = std::string(*found);
        break;
      case kind::sync:
        store_.sync();
        break;
      case kind::tag:
        a.belongs_to = store_.tag();
        memory_orders::returned();
        a.returned = ++moment_;  // what it closed may be read later, and must still be the same
        a.shown = shown_by(store_.at(a.belongs_to));
        end(a);
        return;
      case kind::look: {
        const snapshot now = store_.latest();
        memory_orders::returned();
        a.returned = ++moment_;  // as of a tag
        a.belongs_to = now.version();
        a.shown = shown_by(now);
        end(a);
        return;
      }
    }
    end(a);
    memory_orders::returned();
    a.returned = ++moment_;
  }

  /// Notes what is durable once it has shown all.
  void end(answered& a) {
    a.ended = ++moment_;
    if (scenario_.how.deferred) a.durable = store_.durable_version();
  }

  /// Who reads syncs what no sync covers, and that closes a version.
  [[nodiscard]] std::vector<answered> with_syncs_of_readers() const {
    std::vector<answered> all = operations_;
    if (!scenario_.how.deferred) return all;
    using kind = answered::kind;
    for (const answered& o : operations_) {
      if (o.what != kind::find && o.what != kind::look && o.what != kind::tag) continue;
      answered& sync = all.emplace_back();
      sync.what = kind::sync;
      sync.called = o.called;
      sync.returned = std::max(o.ended, o.returned);
    }
    return all;
  }

  /// Of a store whose durability is deferred: what was shown is durable, and what had returned when a sync was called.
  void require_durable() const {
    const all_histories all = histories();
    const auto require_shown = [&](const answered& o, const std::string& key, const std::string& value) {
      const auto of = all.find(key);
      const bool durable = of != all.end() && std::ranges::any_of(of->second, [&](const auto& change) {
                             return change.second == value && change.first <= o.durable;
                           });
      if (!durable) throw std::runtime_error(key + "=" + value + " was shown and is not durable\n" + description());
    };
    for (const answered& o : operations_) {
      if (o.found) require_shown(o, o.writes[0].key, *o.found);
      for (const auto& [key, value] : o.shown.value_or(answered::items())) require_shown(o, key, value);
      if (o.what != answered::kind::sync) continue;
      for (const answered& before : operations_) {
        if (before.returned < o.called && before.belongs_to > o.durable)
          throw std::runtime_error("a sync left out what had returned before it\n" + description());
      }
    }
  }

  [[nodiscard]] all_histories histories() const { return histories_of(store_); }

  [[nodiscard]] std::string description() const {
    std::string text;
    for (const answered& o : operations_) {
      static constexpr const char* names[] = {"insert", "remove",     "batch",   "find",      "tag",
                                              "look",   "insert_new", "replace", "batch_new", "sync"};
      text += "  " + std::string(names[static_cast<int>(o.what)]);
      for (const auto& w : o.writes) text += " " + w.key + (w.value ? "=" + *w.value : "");
      text += ": called " + std::to_string(o.called) + ", returned " + std::to_string(o.returned) + ", version " +
              std::to_string(o.belongs_to) + (o.found ? ", found " + *o.found : "") + "\n";
    }
    return text + content_text(store_);
  }

  const scenario& scenario_;
  store store_;
  std::vector<answered> operations_;
  std::uint64_t moment_ = 0;
};

/// What is left of a write that a kill cut off between the exchange of the head and the stamp.
void unstamp(std::vector<std::byte>& file, std::string_view value) {
  const auto* const begin = reinterpret_cast<const char*>(file.data());
  const std::size_t at = std::string_view(begin, file.size()).find(value);
  if (at == std::string_view::npos) throw std::runtime_error("the write to be cut off is not in the file");
  const std::size_t stamp = at - sizeof(format::update_header) + offsetof(format::record_header, stamp);
  std::memset(file.data() + stamp, 0, sizeof(std::uint64_t));
}

beginning prepared(const scenario& s) {
  machine& m = machine::get();
  m.set_device(s.how.on);
  m.seed(1);
  simulated_file& f = m.file(machine::checked);
  f.remove();
  icecore::detail::own_thread_number = 0;  // the writer of the first fiber
  beginning all;
  {
    store first(machine::path(machine::checked), opening_options(s.how, machine::checked));
    for (const std::string& key : s.before) first.insert(key, "before");
    first.tag();
    all.there = histories_of(first);
  }
  if (s.cut_off) {
    constexpr std::string_view value = "cut off";
    store killed(machine::path(machine::checked), opening_options(s.how, machine::checked));
    killed.insert("k", value);
    all.file.assign(f.bytes().begin(), f.bytes().end());
    unstamp(all.file, value);
  } else {
    all.file.assign(f.bytes().begin(), f.bytes().end());
  }
  return all;
}

struct arguments {
  std::uint64_t runs_max = 5'000;
  std::uint64_t priorities = 15'000;
  std::uint64_t random = 20'000;
  std::uint64_t seed = 1;
  std::uint64_t seconds = 0;
  std::string only;
  std::optional<std::uint64_t> replay;
};

void run_once(const scenario& s, const beginning& with, schedule& how, std::optional<std::uint64_t> loads) {
  machine& m = machine::get();
  m.set_device(s.how.on);
  m.file(machine::checked).assign(with.file);
  run r(s);
  r.go(with.there, how, loads);
}

/// What was run.
struct explored {
  std::uint64_t scenarios = 0;
  std::uint64_t complete = 0;       ///< of them, in all their interleavings
  std::uint64_t in_order = 0;       ///< interleavings, depth first
  std::uint64_t by_priorities = 0;  ///< likewise, of scenarios that have more
  std::uint64_t drawn = 0;          ///< of random scenarios
};

class explorer {
 public:
  explicit explorer(const arguments& a) : a_(a), begin_(std::chrono::steady_clock::now()) {}

  /// False at the first violation, which it tells.
  bool run() {
    if (!a_.replay) {
      for (const scenario& s : all_scenarios()) {
        if (s.name.find(a_.only) == std::string::npos || over()) continue;
        if (!explore(s)) return false;
      }
    }
    const std::uint64_t first = a_.replay.value_or(a_.seed);
    const std::uint64_t count = !a_.only.empty() ? 0 : a_.replay ? 1 : a_.random;
    for (std::uint64_t seed = first; seed < first + count && !over(); ++seed) {
      if (!explore_random(seed)) return false;
    }
    return true;
  }

  [[nodiscard]] const explored& done() const noexcept { return done_; }

 private:
  [[nodiscard]] bool over() const {
    return a_.seconds != 0 && std::chrono::steady_clock::now() - begin_ > std::chrono::seconds(a_.seconds);
  }

  /// Runs it once; tells what was wrong, and how to see it again.
  static bool tried(const scenario& s, const beginning& with, schedule& how, std::optional<std::uint64_t> loads,
                    const std::string& replay) {
    try {
      run_once(s, with, how, loads);
      return true;
    } catch (const std::exception& wrong) {
      std::printf("FAILED: %s: %s\n  replay: icecore_schedules %s\n", s.name.c_str(), wrong.what(), replay.c_str());
      return false;
    }
  }

  bool explore(const scenario& s) {
    const beginning with = prepared(s);
    const std::string only = "--only '" + s.name + "' ";
    exhaustive_schedule all;
    bool more = true;
    std::size_t steps = 0;  // of the first run: so a replay draws the same
    while (more && all.runs() <= a_.runs_max && !over()) {
      if (!tried(s, with, all, std::nullopt, only + "--priorities 0 --runs " + std::to_string(all.runs())))
        return false;
      if (steps == 0) steps = all.steps();
      more = all.next();
    }
    std::uint64_t drawn = 0;
    for (; more && a_.runs_max != 0 && drawn < a_.priorities && !over(); ++drawn) {
      const std::uint64_t seed = a_.seed + drawn;
      priority_schedule how(seed, steps);
      if (!tried(s, with, how, seed, only + "--runs 1 --priorities 1 --seed " + std::to_string(seed))) return false;
    }
    const std::uint64_t in_order = all.runs() - (more ? 1 : 0);  // next() has counted one that was not run
    ++done_.scenarios;
    done_.complete += more ? 0 : 1;
    done_.in_order += in_order;
    done_.by_priorities += drawn;
    std::printf("%-50s %8llu interleavings of %zu steps%s\n", s.name.c_str(),
                static_cast<unsigned long long>(in_order + drawn), steps, more ? ", not all" : "");
    std::fflush(stdout);
    return true;
  }

  /// Half of its schedules change writers again and again, half of them seldom.
  bool explore_random(std::uint64_t seed) {
    const scenario s = random_scenario(seed);
    const beginning with = prepared(s);
    const std::string replay = "--story " + std::to_string(seed);
    constexpr std::uint64_t schedules = 8;
    std::size_t steps = 1'000;
    for (std::uint64_t i = seed * schedules; i < (seed + 1) * schedules; ++i, ++done_.drawn) {
      if (i % 2 == 0) {
        priority_schedule how(i, steps);
        if (!tried(s, with, how, i, replay)) return false;
        steps = how.steps();
      } else {
        random_schedule how(i);
        if (!tried(s, with, how, i, replay)) return false;
      }
    }
    return true;
  }

  const arguments& a_;
  std::chrono::steady_clock::time_point begin_;
  explored done_;
};

int explore(const arguments& a) {
  explorer e(a);
  if (!e.run()) return 1;
  const explored& done = e.done();
  std::printf(
      "%llu interleavings of %llu scenarios, %llu of them in all, %llu by priorities from seed %llu; %llu of random "
      "ones; "
      "no violation\n",
      static_cast<unsigned long long>(done.in_order + done.by_priorities),
      static_cast<unsigned long long>(done.scenarios), static_cast<unsigned long long>(done.complete),
      static_cast<unsigned long long>(done.by_priorities), static_cast<unsigned long long>(a.seed),
      static_cast<unsigned long long>(done.drawn));
  return 0;
}

int main_of(int argc, char** argv) {
  fibers::on_change = [](unsigned fiber) { icecore::detail::own_thread_number = fiber; };
  arguments a;
  CLI::App app(
      "Explores interleavings of writers of one store: small scenarios in all of them, larger ones at random.");
  app.add_option("--runs", a.runs_max,
                 "interleavings of one scenario, depth first, at most; 0: no scenarios but random ones")
      ->capture_default_str();
  app.add_option("--priorities", a.priorities,
                 "of a scenario that has more: so many with few changes of writers, each at a random step")
      ->capture_default_str();
  app.add_option("--random", a.random, "scenarios drawn at random, 8 schedules each")->capture_default_str();
  app.add_option("--seed", a.seed, "of the first random scenario, and of the first of --priorities")
      ->capture_default_str();
  app.add_option("--seconds", a.seconds, "stop after so long; 0: never")->capture_default_str();
  app.add_option("--only", a.only, "scenarios whose name has this in it; no random ones");
  app.add_option("--story", a.replay, "the random scenario of this seed alone");
  CLI11_PARSE(app, argc, argv);
  return explore(a);
}

}  // namespace
}  // namespace icecore::crash

int main(int argc, char** argv) {
  try {
    return icecore::crash::main_of(argc, argv);
  } catch (const std::exception& failed) {
    std::cerr << "icecore_schedules: " << failed.what() << "\n";
    return 2;
  }
}
