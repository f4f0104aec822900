// icecore_bench: compares icecore with other stores, with the evaluation of its paper and more.
//
// Every repetition of a suite, with one number of threads on one store, runs in a process of its own (isolated.hpp).
// Within a repetition all stores take turns, in an order that rotates from one repetition to the next, so that changes
// in the machine's speed affect all of them.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>

#include "comparison.hpp"
#include "cores.hpp"
#include "stores/kinds.hpp"

namespace icecore::bench {
namespace {

constexpr std::uint64_t n_of_quick_runs = 50'000;

volatile std::sig_atomic_t interrupted = 0;

void list_what_there_is() {
  std::printf("Suites:\n");
  for (const auto& s : all_suites()) std::printf("  %-18s %s\n", s.name.c_str(), s.what.c_str());
  const auto list_stores = [](const char* head, const auto& listed) {
    std::printf("\n%s:\n", head);
    for (const auto& k : all_kinds()) {
      if (listed(k)) std::printf("  %-18s %s\n", k.name.c_str(), k.configuration.c_str());
    }
  };
  const auto has = [](auto open) { return [open](const store_kind& k) { return static_cast<bool>(k.*open); }; };
  list_stores("Stores of ycsb and recovery, maps of newest values", has(&store_kind::open_map));
  list_stores("Stores of query, which find by a condition", has(&store_kind::open_filtered));
  list_stores("Stores of the other suites, of versions", has(&store_kind::open));
}

template <class T>
std::vector<std::string> names_of(const std::vector<T>& all) {
  std::vector<std::string> names;
  for (const auto& one : all) names.push_back(one.name);
  return names;
}

/// The elements of `all` whose names were given, in the order of `all`; all of them if no name was given.
template <class T>
std::vector<const T*> chosen_of(const std::vector<T>& all, const std::vector<std::string>& names) {
  std::vector<const T*> chosen;
  for (const auto& one : all) {
    if (names.empty() || std::ranges::find(names, one.name) != names.end()) chosen.push_back(&one);
  }
  return chosen;
}

/// Store names apply to all suites. Each suite measures the stores of its kind, and a run must measure at least one.
void require_stores(const comparison_settings& chosen) {
  for (const suite* s : chosen.suites) {
    if (std::ranges::any_of(chosen.stores, [s](const store_kind* kind) { return s->measures(*kind); })) return;
  }
  throw std::runtime_error("these suites measure none of these stores; --list shows all suites and stores");
}

/// Writes the file completely or not at all: a killed run leaves the file of the repetition before.
void write_json(const comparison& measured, const std::string& path) {
  const std::string unfinished = path + ".unfinished";
  std::ofstream out(unfinished);
  out << measured.to_json().dump(2) << '\n';
  out.close();
  if (!out) throw std::runtime_error("cannot write " + unfinished);
  std::filesystem::rename(unfinished, path);
}

/// Reports a file that cannot be written before anything is measured. An existing file stays until a better one is
/// ready.
void require_writable(const std::string& json_path) {
  const std::string unfinished = json_path + ".unfinished";
  if (!std::ofstream(unfinished)) throw std::runtime_error("cannot write " + unfinished);
  std::filesystem::remove(unfinished);
}

/// Makes the signals end waits, so a run stops immediately, not when the current store has been measured.
void stop_on_signals() {
  struct sigaction action {};
  action.sa_handler = [](int received) { interrupted = received; };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

int compare(const comparison_settings& chosen, const std::string& json_path) {
  require_stores(chosen);
  if (!json_path.empty()) require_writable(json_path);
  stop_on_signals();
  comparison measured(chosen);
  measured.measure([] { return interrupted != 0; },
                   [&] {
                     if (!json_path.empty()) write_json(measured, json_path);
                   });
  measured.print();
  if (interrupted != 0) {
    std::fprintf(stderr, "icecore_bench: interrupted; the table shows the repetitions that were complete.\n");
    return 128 + interrupted;
  }
  return measured.failed() ? 1 : 0;
}

/// The settings of the suites ycsb and recovery.
void add_ycsb_options(CLI::App& app, ycsb::settings& chosen) {
  std::map<std::string, ycsb::distribution> distributions;
  for (const auto one : {ycsb::distribution::uniform, ycsb::distribution::zipfian, ycsb::distribution::latest}) {
    distributions[ycsb::name_of(one)] = one;
  }
  const auto add = [&](const char* name, auto& to, const char* what) {
    return app.add_option(name, to, what)->group("Options of the suites ycsb and recovery");
  };
  add("--workloads", chosen.workloads, "Only these workloads: A to F, and updates")
      ->delimiter(',')
      ->check(CLI::IsMember(names_of(ycsb::all_workloads())));
  add("--records", chosen.records, "Number of keys to load; recovery takes several numbers (default: N)")
      ->delimiter(',')
      ->check(CLI::Range(std::uint64_t{1000}, std::uint64_t{1'000'000'000}));
  auto* operations = add("--operations", chosen.operations, "Operations of a run (default: the number of keys)")
                         ->check(CLI::Range(std::uint64_t{1000}, std::uint64_t{1'000'000'000}));
  add("--seconds", chosen.seconds, "Seconds of a run, instead of a number of operations")
      ->check(CLI::Range(0.001, 3600.0))
      ->excludes(operations);
  add("--distribution", chosen.chosen, "Distribution of the keys, instead of the workload's own")
      ->transform(CLI::CheckedTransformer(distributions).description(""))
      ->type_name("uniform|zipfian|latest");
  add("--theta", chosen.theta, "How skewed zipfian and latest are")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 0.999));
  app.add_flag("--compacted", chosen.settled, "Compact what was loaded, in each store that can, before a workload runs")
      ->group("Options of the suites ycsb and recovery");
  add("--value-size", chosen.value_size, "Bytes of a value")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{8}, std::size_t{1} << 20));
}

/// Whether the variable of malloc's tunables was changed.
bool add_huge_pages_tunable() {
  constexpr const char* variable = "GLIBC_TUNABLES";
  const char* const set = std::getenv(variable);
  std::string tunables = set == nullptr ? "" : set;
  if (tunables.find("glibc.malloc.hugetlb") != std::string::npos) return false;  // set by the user, or already by us
  if (!tunables.empty()) tunables += ':';
  setenv(variable, (tunables + "glibc.malloc.hugetlb=1").c_str(), 1);
  return true;
}

/// Makes libpmemobj flush as icecore does, instead of calling msync, on file systems that are not persistent memory.
bool add_flushes_of_libpmemobj() {
  constexpr const char* variable = "PMEM_IS_PMEM_FORCE";
  if (std::getenv(variable) != nullptr) return false;
  setenv(variable, "1", 1);
  return true;
}

/// Lets malloc ask for huge pages, as icecore does for itself, so that stores that use malloc have the same advantage.
/// glibc and libpmem read these settings when a program starts, so the program starts itself anew.
void start_with_environment(char** argv) {
  const bool tunable_added = add_huge_pages_tunable();
  const bool flushes_added = add_flushes_of_libpmemobj();
  if (!tunable_added && !flushes_added) return;
  std::error_code none;
  execv(std::filesystem::read_symlink("/proc/self/exe", none).c_str(), argv);  // this way ps shows the same name
}

}  // namespace
}  // namespace icecore::bench

int main(int argc, char** argv) {
  using namespace icecore::bench;
  start_with_environment(argv);
  CLI::App app{"Compares the speed of icecore and other stores: the evaluation of its paper, and more."};
  comparison_settings chosen;
  std::vector<std::string> suites = {"paper"};
  std::vector<std::string> stores;
  std::string json_path;
  bool quick = false;
  bool list = false;
  bool pin = false;
  double settle_percent = 0;
  ycsb::settings of_ycsb;
  auto suite_names = names_of(all_suites());
  suite_names.emplace_back("all");
  app.add_option("--suite", suites, "Suites to measure, or all")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember(suite_names));
  app.add_option("--stores", stores, "Measure only these stores")
      ->delimiter(',')
      ->check(CLI::IsMember(names_of(all_kinds())));
  app.add_option("--threads", chosen.threads, "Numbers of threads; the output marks numbers above the number of cores")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  auto* n_option = app.add_option("--n", chosen.n, "Size of the problems, the paper's N")
                       ->capture_default_str()
                       ->check(CLI::Range(std::uint64_t{1000}, std::uint64_t{1'000'000'000}));
  app.add_option("--repetitions", chosen.repetitions, "Repetitions, of which the median is taken")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--settle", settle_percent,
                 "Repeat until half of each row's 95 % interval is at most so many percent of its median")
      ->check(CLI::Range(0.1, 100.0));
  app.add_option("--most", chosen.repetitions_max, "Repetitions at most, with --settle")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option(
         "--memory", chosen.memory,
         "warm: memory is touched just before each phase, so that the host of a virtual machine has it; cold: as found")
      ->transform(CLI::CheckedTransformer(
                      std::map<std::string, memory_state>{{"warm", memory_state::warm}, {"cold", memory_state::cold}})
                      .description(""))
      ->type_name("warm|cold");
  app.add_flag("--pin", pin, "Keep each thread on a core of its own, where there are enough");
  app.add_flag("--quick", quick, "N = 50,000: minutes instead of hours")->excludes(n_option);
  add_ycsb_options(app, of_ycsb);
  app.add_option("--folder", chosen.folder, "Folder for the stores, which are removed after each run")
      ->capture_default_str()
      ->check(CLI::ExistingDirectory);
  app.add_option("--sync-folder", chosen.sync_folder, "A folder on the device whose sync times are measured")
      ->capture_default_str()
      ->check(CLI::ExistingDirectory);
  app.add_option("--time-limit", chosen.limit_s, "Seconds after which a store's runs in a suite are stopped")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--json", json_path, "Write the figures to this file, after each repetition");
  app.add_flag("--list", list, "List the suites, and the stores with their configurations");
  app.footer(
      "Examples:\n"
      "  icecore_bench --suite paper --threads 1,2 --json paper.json\n"
      "  icecore_bench --suite all --quick\n"
      "  icecore_bench --suite ycsb --records 1000000 --operations 2000000 --threads 1,2 --json ycsb.json\n"
      "  icecore_bench --suite recovery --records 1000000,10000000,50000000 --threads 2 --json recovery.json\n"
      "  icecore_bench --suite depth,mixed --stores icecore-none,LMDB --n 100000");
  CLI11_PARSE(app, argc, argv);
  if (list) {
    list_what_there_is();
    return 0;
  }
  if (quick) chosen.n = n_of_quick_runs;
  if (pin) keep_threads_on_cores();
  chosen.spread_max = settle_percent / 100;
  if (std::ranges::find(suites, "all") != suites.end()) suites.clear();
  chosen.of_ycsb = of_ycsb;
  const auto known_suites = all_suites(of_ycsb);
  chosen.suites = chosen_of(known_suites, suites);
  chosen.stores = chosen_of(all_kinds(), stores);
  try {
    return compare(chosen, json_path);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "icecore_bench: %s\n", failure.what());
    return 1;
  }
}
