// icecore_schedules: interleavings of writers of one store, each judged by whether an order explains it.
//
// Scenarios of two writers with two operations each are run in all interleavings (exhaustive.hpp), or, where these are
// too many, in some and in others with few changes of writers (priorities.hpp); larger ones at random from a seed.
// After each, the answers and the end must have an order (orders.hpp), and the store must verify.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <random>
#include <stdexcept>

#include "base/threads.hpp"
#include "content.hpp"
#include "exhaustive.hpp"
#include "machine.hpp"
#include "memory_orders.hpp"
#include "orders.hpp"
#include "pool/format.hpp"
#include "priorities.hpp"
#include "store/core.hpp"

namespace icecore::crash {
namespace {

using kind = answered::kind;

struct planned {
  kind what;
  std::vector<answered::write> writes{};
};

struct scenario {
  std::string name;
  story_options how;
  std::vector<std::string> before;  // keys that are there
  std::vector<std::vector<planned>> writers;
  bool cut_off =
      false;  // a kill cut off a write to the key k behind the exchange of its head, which leads to nothing now
};

/// With what each run of a scenario begins.
struct beginning {
  std::vector<std::byte> file;
  all_histories there;
};

planned insert(const std::string& key, const std::string& value) { return {kind::insert, {{key, value}}}; }
planned remove(const std::string& key) { return {kind::remove, {{key, std::nullopt}}}; }
planned find(const std::string& key) { return {kind::find, {{key, std::nullopt}}}; }
planned tag() { return {kind::tag}; }
planned look() { return {kind::look}; }
planned both(const std::string& a, const std::string& b, const std::string& value) {
  return {kind::batch, {{a, value}, {b, value}}};
}

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
    if (!has_order(before, clock, operations_, histories()))
      throw std::runtime_error("no order explains\n" + description());
    for (const std::string& wrong : store_.core().index().check())
      throw std::runtime_error("index: " + wrong + "\n" + description());
    const auto report = store_.verify();
    if (!report.ok()) throw std::runtime_error("verify: " + report.damages.front().what + "\n" + description());
  }

 private:
  void call(const planned& p, answered& a) {
    a.what = p.what;
    a.writes = p.writes;
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
      case kind::find:
        if (const auto found = store_.find(p.writes[0].key)) a.found = std::string(*found);
        break;
      case kind::tag:
        a.belongs_to = store_.tag();
        memory_orders::returned();
        a.returned = ++moment_;  // what it closed may be read later, and must still be the same
        a.shown = shown_by(store_.at(a.belongs_to));
        return;
      case kind::look: {
        const snapshot now = store_.latest();
        memory_orders::returned();
        a.returned = ++moment_;  // as of a tag
        a.belongs_to = now.version();
        a.shown = shown_by(now);
        return;
      }
    }
    memory_orders::returned();
    a.returned = ++moment_;
  }

  [[nodiscard]] all_histories histories() const { return histories_of(store_); }

  [[nodiscard]] std::string description() const {
    std::string text;
    for (const answered& o : operations_) {
      static constexpr const char* names[] = {"insert", "remove", "batch", "find", "tag", "look"};
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

/// Keys that one leaf has at opening.
unsigned leaf_keys(index_kind index) noexcept {
  return index == index_kind::persistent ? format::index_pairs_max : 57;  // of the skip list none
}

/// Keys that there is room for in a leaf then: an index in memory is built anew, with room in its leaves.
unsigned leaf_room(index_kind index) noexcept { return index == index_kind::btree ? 64 - leaf_keys(index) : 0; }

const char* name_of(index_kind index) noexcept {
  return index == index_kind::btree ? "btree" : index == index_kind::skip_list ? "skip list" : "persistent";
}

/// Splits of leaves of the persistent index beside readers and makers. `leaf`: the keys that one leaf has.
std::vector<scenario> splits_of_persistent(const std::vector<std::string>& leaf) {
  std::vector<scenario> all;
  const auto add = [&](const char* name, const std::vector<std::string>& before, std::vector<planned> a,
                       std::vector<planned> b) {
    const story_options how{durability::none, index_kind::persistent, device::persistent_memory, 2};
    all.push_back({std::string(name) + ", persistent", how, before, {std::move(a), std::move(b)}});
  };
  // Three leaves, each of which has more in common than all: heads change when the one between the others is cut.
  constexpr unsigned of_a_leaf = format::index_pairs_max - 1;  // so a leaf is cut that keys filled in their order
  const auto key_of = [](unsigned leaf_number, unsigned i) {
    return std::string("leaf-") + static_cast<char>('a' + leaf_number) + "-of-three-" + std::to_string(100 + i);
  };
  std::vector<std::string> leaves;
  for (unsigned i = 0; i < 2 * of_a_leaf + 5; ++i) leaves.push_back(key_of(i / of_a_leaf, i % of_a_leaf));
  const std::string low = key_of(1, 9) + "5";
  const std::string middle = key_of(1, 12);  // with `low`, the first one of the right half
  const std::string high = key_of(1, 18);
  add("a split between two leaves and a reader", leaves, {insert(low, "a1"), insert(high + "5", "a2")},
      {find(high), find(middle)});
  add("a split between two leaves and a maker", leaves,
      {insert(low, "a1"), insert(low + "5", "a2"), insert(low + "7", "a3")},
      {insert(high + "5", "b1"), insert(high + "7", "b2"), find(high)});
  add("a split between two leaves and a looker", leaves, {insert(low, "a1"), insert(high + "5", "a2")},
      {look(), look()});
  std::vector<std::string> full = leaves;
  full.push_back(key_of(1, 9) + "3");  // the one between two others
  add("a split of a full leaf between two and a reader", full, {insert(low, "a1")}, {find(high)});
  // The slot of the first pair that goes to the right is used again for what is inserted on the left.
  const std::string left = leaf[leaf.size() / 3] + "5";
  const std::string moved = leaf[leaf.size() / 2];
  add("a slot used again and a reader", leaf, {insert(left, "a1"), insert(left + "5", "a2")},
      {find(moved), find(moved)});
  add("a split and a looker", leaf, {insert(left, "a1"), insert(left + "5", "a2")}, {look(), look()});
  // The second one makes a bound of a key that came after the first one.
  const std::string& last = leaf.back();
  const std::string& before_last = leaf[leaf.size() - 2];
  add("two splits of one leaf and a maker", leaf,
      {insert(last + "1", "a1"), insert(before_last + "1", "a2"), insert(before_last + "2", "a3")},
      {insert(last + "2", "b1"), find(before_last)});
  // The second one is about to cut the leaf, too, when the slot that the first one has freed is used again.
  add("two makers behind a full leaf", leaf, {insert(last + "1", "a1"), insert(before_last + "1", "a2")},
      {insert(last + "2", "b1")});
  return all;
}

std::vector<scenario> scenarios_of(index_kind index) {
  std::vector<std::string> leaf;
  for (unsigned i = 0; i < leaf_keys(index); ++i) leaf.push_back("leaf-" + std::to_string(100 + i));
  const std::string there = leaf[leaf.size() * 2 / 3];
  const std::string left = leaf[leaf.size() / 3] + "5";
  const std::string right = there + "5";
  // What splits the leaf: so many more keys fill it.
  std::vector<planned> splitting;
  for (unsigned i = 0; i < leaf_room(index); ++i) splitting.push_back(insert(leaf[5 * i] + "3", "f"));
  splitting.push_back(insert(left, "a1"));
  std::vector<planned> splitting_and_find = splitting;
  splitting.push_back(insert(right, "a2"));
  splitting_and_find.push_back(find(right));
  const auto of = [](std::string name, std::vector<std::string> before, std::vector<planned> a,
                     std::vector<planned> b) {
    return scenario{std::move(name), {}, std::move(before), {std::move(a), std::move(b)}};
  };
  const std::vector<scenario> shapes = {
      of("two writers of one key", {"k"}, {insert("k", "a1"), insert("k", "a2")},
         {insert("k", "b1"), insert("k", "b2")}),
      of("two makers of one key", {}, {insert("k", "a1"), find("k")}, {insert("k", "b1"), find("k")}),
      of("writer and remover", {"k"}, {insert("k", "a1"), find("k")}, {remove("k"), remove("k")}),
      of("writer and reader", {"k"}, {insert("k", "a1"), remove("k")}, {find("k"), find("k")}),
      of("maker and tagger", {}, {insert("k", "a1"), insert("k", "a2")}, {tag(), tag()}),
      of("updater and tagger", {"k"}, {insert("k", "a1"), remove("k")}, {tag(), find("k")}),
      of("two taggers", {"k"}, {insert("k", "a1"), tag()}, {insert("k", "b1"), tag()}),
      of("batch and writer", {"k"}, {both("k", "l", "a1"), find("l")}, {insert("k", "b1"), find("k")}),
      of("batch and reader", {"k"}, {both("k", "l", "a1"), both("k", "m", "a2")},
         {find("k"), find("l"), find("k"), find("m")}),
      of("writer and looker", {"k"}, {insert("k", "a1"), insert("l", "a2")}, {find("k"), look(), find("l"), look()}),
      of("batch and tagger", {"k"}, {both("k", "l", "a1"), tag()}, {tag(), find("k")}),
      of("two batches", {"k", "l"}, {both("k", "l", "a1"), find("k")}, {both("l", "k", "b1"), find("l")}),
      of("a split and a reader", leaf, splitting, {find(there), find(left)}),
      of("a split and a maker", leaf, splitting_and_find, {insert(right, "b1"), find(left)}),
  };
  std::vector<scenario> all;
  if (index == index_kind::persistent) {
    // The first one writes where the head leads.
    const auto cut_off = [&](const char* name, std::vector<planned> a, std::vector<planned> b) {
      scenario s = of(name, {"k"}, std::move(a), std::move(b));
      s.how = {durability::operation, index, device::persistent_memory, 2};
      s.cut_off = true;
      all.push_back(std::move(s));
    };
    cut_off("a place used again and a reader", {insert("k", "a1")}, {find("k"), find("k")});
    cut_off("a place used again and a writer", {insert("k", "a1")}, {insert("k", "b1"), find("k")});
    cut_off("a place used again and a remover", {insert("k", "a1")}, {remove("k"), find("k")});
  }
  if (index == index_kind::persistent) {
    for (scenario& s : splits_of_persistent(leaf)) all.push_back(std::move(s));
  }
  if (index == index_kind::btree) {
    std::vector<std::string> leaves = leaf;
    for (unsigned i = 0; i < 7; ++i) leaves.push_back("leaf-" + std::to_string(900 + i));
    all.push_back(of("a split of one of two leaves and a maker", leaves, splitting_and_find,
                     {insert(right, "b1"), insert(left + "7", "b2"), find(left)}));
    all.push_back(of("insert and find-then-look", {"k"}, {insert("k", "a1")}, {find("k"), look()}));
    // Deep enough for samples of its versions (history/version_samples.hpp): each of the first two makes one.
    const std::vector<std::string> deep(63, "k");
    const auto a = insert("k", "a");
    all.push_back(of("a deep history", deep, {insert("k", "b1"), tag(), tag()}, {a, a, a, a, a, a, a, a, tag()}));
  }
  for (const durability mode : {durability::none, durability::operation, durability::tag}) {
    for (scenario s : shapes) {
      s.how = {mode, index, mode == durability::tag ? device::disk : device::persistent_memory, 2};
      s.name += std::string(", ") + name_of(index);
      s.name += mode == durability::none ? ", none" : mode == durability::tag ? ", tag" : ", operation";
      all.push_back(std::move(s));
    }
  }
  return all;
}

constexpr index_kind indexes[] = {index_kind::btree, index_kind::skip_list, index_kind::persistent};

std::vector<scenario> all_scenarios() {
  std::vector<scenario> all;
  for (const index_kind index : indexes) {
    for (scenario& s : scenarios_of(index)) all.push_back(std::move(s));
  }
  return all;
}

scenario random_scenario(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  scenario s;
  s.name = "seed " + std::to_string(seed);
  constexpr durability modes[] = {durability::none, durability::operation, durability::tag};
  s.how.durability = modes[random() % 3];
  s.how.index = indexes[random() % 3];
  s.how.on = s.how.durability == durability::tag ? device::disk : device::persistent_memory;
  const std::size_t there = random() % 3 == 0 ? leaf_keys(s.how.index) - 2 + random() % 3 : random() % 4;
  for (std::size_t i = 0; i < there; ++i) s.before.push_back("k" + std::to_string(i));
  s.writers.resize(2 + random() % 3);
  unsigned number = 0;
  for (auto& plan : s.writers) {
    const std::size_t count = 2 + random() % 3;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string key = "k" + std::to_string(random() % 3) + (random() % 4 == 0 ? "x" : "");
      const std::string value = "v" + std::to_string(++number);
      switch (random() % 8) {
        case 0:
          plan.push_back(remove(key));
          break;
        case 1:
          plan.push_back(find(key));
          break;
        case 2:
          plan.push_back(tag());
          break;
        case 3:
          plan.push_back(both(key, "k" + std::to_string(random() % 4) + "y", value));
          break;
        default:
          plan.push_back(insert(key, value));
      }
    }
  }
  return s;
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
