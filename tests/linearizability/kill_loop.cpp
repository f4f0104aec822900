#include "kill_loop.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>

#include "checker.hpp"
#include "killed_store.hpp"
#include "stacks.hpp"

namespace icecore::testing {
namespace {

/// Of so many kills some find a store open, an operation in flight, and a reader afterwards.
constexpr std::uint64_t kills_that_hit = 8;
/// And within so many stores, of which processes that share one kill many times.
constexpr std::uint64_t stores_that_hit = 16;
/// A life takes less than a second, and more where machines are slow and sanitizers look on.
constexpr unsigned life_seconds_max = 300;

/// What was done so far, in this run and those it goes on from.
struct progress_so_far {
  std::uint64_t stores = 0;
  std::uint64_t operations = 0;
  std::uint64_t writes = 0;
  std::uint64_t in_flight = 0;
  std::uint64_t in_flight_kept = 0;
  std::uint64_t milliseconds = 0;
  kill_counts counts;

  void add(const verdict& v) {
    operations += v.operations;
    writes += v.writes;
    in_flight += v.in_flight;
    in_flight_kept += v.in_flight_kept;
  }
  void add(const kill_counts& c);
};

/// Calls visit(name, number) for every number.
template <class Progress, class Visit>
void for_each_number(Progress& p, Visit visit) {
  visit("stores", p.stores);
  visit("kills", p.counts.kills);
  visit("operations", p.operations);
  visit("writes", p.writes);
  visit("in_flight", p.in_flight);
  visit("in_flight_kept", p.in_flight_kept);
  visit("by_time", p.counts.by_time);
  visit("opening", p.counts.opening);
  visit("recovery_kills", p.counts.recovery_kills);
  visit("reopenings", p.counts.reopenings);
  visit("crashes_seen", p.counts.crashes_seen);
  visit("read_only", p.counts.read_only);
  visit("lives", p.counts.lives);
  visit("packings", p.counts.packings);
  visit("poisoned", p.counts.poisoned);
  for (std::size_t i = 1; i < kill_points; ++i) {
    visit("at_" + std::string(name_of(static_cast<kill_point>(i))), p.counts.at_point[i]);
  }
  visit("milliseconds", p.milliseconds);
}

void progress_so_far::add(const kill_counts& c) {
  progress_so_far other;
  other.counts = c;
  std::vector<std::uint64_t> numbers;
  for_each_number(other, [&](const std::string&, std::uint64_t n) { numbers.push_back(n); });
  auto next = numbers.begin();
  for_each_number(*this, [&](const std::string&, std::uint64_t& n) { n += *next++; });
}

/// What a state file must agree in with the run that goes on from it.
[[nodiscard]] std::string plan_of(const loop_options& how) {
  std::string plan = "seed " + std::to_string(how.seed) + " processes " + std::to_string(how.processes) +
                     (how.packs ? " packs" : "") + " settings";
  for (const setting& s : how.settings) plan.append(" ").append(s.name());
  return plan;
}

[[nodiscard]] progress_so_far load_state(const loop_options& how) {
  progress_so_far p;
  if (how.state.empty() || !std::filesystem::exists(how.state)) return p;
  std::ifstream in(how.state);
  std::string plan;
  std::getline(in, plan);
  if (plan != plan_of(how)) {
    throw std::runtime_error(how.state.string() + ": was written by a run of \"" + plan + "\", this is \"" +
                             plan_of(how) + "\"; give it the same options or another file");
  }
  for_each_number(p, [&](const std::string& name, std::uint64_t& n) {
    std::string found;
    if (!(in >> found >> n) || found != name) {
      throw std::runtime_error(how.state.string() + ": has no number \"" + name + "\"; remove it to begin anew");
    }
  });
  return p;
}

void save_state(const loop_options& how, const progress_so_far& p) {
  if (how.state.empty()) return;
  const std::filesystem::path fresh = how.state.string() + ".new";
  {
    std::ofstream out(fresh, std::ios::trunc);
    out << plan_of(how) << '\n';
    for_each_number(p, [&](const std::string& name, std::uint64_t n) { out << name << ' ' << n << '\n'; });
    out.flush();
    if (!out) throw std::runtime_error(fresh.string() + ": could not be written; is there room?");
  }
  std::filesystem::rename(fresh, how.state);
}

[[nodiscard]] std::string summary(const progress_so_far& p) {
  std::ostringstream out;
  if (p.counts.packings != 0) out << p.counts.packings << " compactions amid operations, ";
  out << p.counts.kills << " kills (" << p.counts.by_time << " at random moments";
  for (std::size_t i = 1; i < kill_points; ++i) {
    if (p.counts.at_point[i] != 0) out << ", " << p.counts.at_point[i] << " at " << name_of(static_cast<kill_point>(i));
  }
  out << "; " << p.counts.opening << " while opening) and " << p.counts.recovery_kills << " in recoveries, in "
      << p.counts.lives << " lives of " << p.stores << " stores, of which " << p.counts.poisoned << " ended poisoned, "
      << p.counts.crashes_seen << " crashes recovered, " << p.operations << " operations checked, " << p.writes
      << " of them writes, " << p.in_flight << " more in flight, of which " << p.in_flight_kept
      << " had taken effect, in " << p.milliseconds / 1000 << " s";
  return out.str();
}

/// Keeps what failed and tells how to see it again.
void report(const loop_options& how, const setting& with, std::uint64_t seed, const killed_store& failed,
            const std::filesystem::path& store_file, const std::string& what) {
  std::filesystem::create_directories(how.keep);
  const auto kept = how.keep / (with.name() + "-" + std::to_string(seed));
  save_history(failed.recorded(), kept.string() + ".history");
  std::error_code ignored;  // there may be no store yet
  for (unsigned n = 0; n < with.files; ++n) {
    const std::string ending = n == 0 ? std::string() : std::string(".").append(std::to_string(n));
    std::filesystem::copy_file(store_file.string() + ending, kept.string() + ".ice" + ending,
                               std::filesystem::copy_options::overwrite_existing, ignored);
  }
  std::cerr << "FAILED: a promise was broken: " << what << "\n  kept: " << kept.string() << ".history and .ice"
            << "\n  check the history again: kill_loop --check " << kept.string() << ".history"
            << "\n  run the same plan again: kill_loop --setting " << with.name() << " --processes " << how.processes
            << (how.packs ? " --packs" : "") << " --seed " << seed << " --kills " << failed.counts().kills << '\n';
}

/// What to say if the store under inspection brings this whole process down, or never answers. Written by its signal
/// handler, which can do no more than write.
std::array<char, 1000> last_words{};

void say_last_words(int signal) {
  constexpr std::string_view late = "A life did not end in time.\n";
  if (signal == SIGALRM) static_cast<void>(write(STDERR_FILENO, late.data(), late.size()));
  static_cast<void>(write(STDERR_FILENO, last_words.data(), std::strlen(last_words.data())));
  print_stack();
  ::signal(signal, SIG_DFL);
  raise(signal);
}

void prepare_last_words(const loop_options& how, const setting& with, std::uint64_t seed, std::uint64_t lives,
                        const std::filesystem::path& at) {
  const std::string text = "The process that starts the others and inspects the store ends.\n  it is left at " +
                           at.string() + "\n  run the same plan again: kill_loop --setting " + with.name() +
                           " --processes " + std::to_string(how.processes) + (how.packs ? " --packs" : "") +
                           " --seed " + std::to_string(seed) + " --kills " + std::to_string(lives) + "\n";
  last_words.fill('\0');
  text.copy(last_words.data(), last_words.size() - 1);
  for (const int fatal : {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGALRM}) signal(fatal, say_last_words);
}

/// All lives of one store. False if a promise was broken.
[[nodiscard]] bool run_store(const loop_options& how, const setting& with, std::uint64_t seed, std::uint64_t lives,
                             progress_so_far& p) {
  const scratch folder(with.where);
  const auto path = folder / "killed.ice";
  prepare_last_words(how, with, seed, lives, path);
  // a life has several compactions, if there are any
  killed_store s(path, with, seed, std::chrono::milliseconds(how.packs ? 240 : 16));
  if (how.packs) s.be_packed();
  std::string broken;
  try {
    for (std::uint64_t i = 0; i < lives; ++i) {
      alarm(life_seconds_max);
      if (how.processes > 1) {
        s.live_shared(how.processes);
      } else {
        s.live();
      }
    }
  } catch (const std::exception& failure) {
    broken = failure.what();
  }
  alarm(0);
  const verdict v = check(s.recorded());
  if (v.violation) broken.append(broken.empty() ? "" : "; moreover ").append(*v.violation);
  p.add(s.counts());
  p.add(v);
  ++p.stores;
  if (!broken.empty()) {
    report(how, with, seed, s, path, broken);
    return false;
  }
  if (!how.save.empty()) {
    std::filesystem::create_directories(how.save);
    save_history(s.recorded(), how.save / (with.name() + "-" + std::to_string(seed) + ".history"));
  }
  return true;
}

/// Whether each kind of thing that a kill can leave has been met.
bool has_hit(const loop_options& how, const progress_so_far& p) {
  const bool may_be_poisoned = how.processes > 1 && std::ranges::any_of(how.settings, [](const setting& s) {
                                 return s.index != index_kind::persistent;
                               });
  return p.counts.crashes_seen != 0 && p.in_flight != 0 && p.counts.read_only != 0 &&
         (!how.packs || p.counts.packings != 0) && (p.counts.poisoned != 0 || !may_be_poisoned);
}

}  // namespace

const std::vector<setting>& loop_settings() {
  static const std::vector<setting> settings = [] {
    std::vector<setting> all;
    for (const place where : {place::tmpfs, place::disk}) {
      if (!root_of(where)) continue;
      for (const auto mode : {durability::none, durability::tag, durability::operation}) {
        for (const auto index : {index_kind::btree, index_kind::skip_list, index_kind::persistent})
          all.push_back({where, mode, index});
      }
      for (const auto mode : {durability::tag, durability::operation}) {
        all.push_back({where, mode, index_kind::btree, 2});
        all.push_back({where, mode, index_kind::persistent, 3});
      }
    }
    return all;
  }();
  return settings;
}

bool run_loop(const loop_options& how) {
  let_stacks_be_printed();
  progress_so_far p = load_state(how);
  const std::uint64_t before_ms = p.milliseconds;
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed_ms = [&] {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin).count());
  };
  std::uint64_t reported_ms = 0;
  // Stores that processes share are few in a short run, and any of them may end without a crash to recover.
  const auto is_enough = [&] {
    return p.counts.kills >= how.kills && p.operations >= how.operations && p.counts.lives >= how.lives &&
           (has_hit(how, p) || p.stores >= stores_that_hit || p.counts.kills < kills_that_hit);
  };
  while (!is_enough()) {
    if (how.seconds_max != 0 && elapsed_ms() / 1000 >= how.seconds_max) {
      std::cout << "Stopped by the time limit.\n";
      break;
    }
    const std::uint64_t seed = how.seed + p.stores;
    const std::uint64_t lives = how.processes > 1 ? 2 + mix(seed) % 2 : 4 + mix(seed) % 12;
    if (!run_store(how, how.settings[p.stores % how.settings.size()], seed, lives, p)) return false;
    p.milliseconds = before_ms + elapsed_ms();
    save_state(how, p);
    if (!how.quiet && elapsed_ms() > reported_ms + 5000) {
      reported_ms = elapsed_ms();
      std::cout << summary(p) << std::endl;
    }
  }
  if (!has_hit(how, p) && p.counts.kills >= kills_that_hit) {
    std::cerr << summary(p) << ": the kills hit nothing.\n";
    return false;
  }
  std::cout << summary(p) << ": no promise was broken." << std::endl;
  return true;
}

}  // namespace icecore::testing
