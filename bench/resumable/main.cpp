// icecore_resumable: figures 1 and 2 of M. Sa and P. Sutra, Efficient Resumable Filter Queries, with icecore.
//
// All kinds take turns within a repetition, beginning with another one each time. The JSON file has the form of
// icecore_bench's (bench/README.md), with the suites resumable-throughput and resumable-completion.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>

#include "../report.hpp"
#include "figures.hpp"
#include "icecore/icecore.hpp"

namespace icecore::bench::resumable {
namespace {

constexpr const char* suite_1 = "resumable-throughput";
constexpr const char* suite_2 = "resumable-completion";

struct point {
  std::string suite, workload, store;
  unsigned threads;
  auto operator<=>(const point&) const = default;
};

class results {
 public:
  explicit results(const settings& chosen) : chosen_(chosen) {}

  void add(const point& at, std::uint64_t n, const outcome& measured) {
    row& r = rows_[at];
    r.n = n;
    r.rates.push_back(measured.per_second);
    r.operations.push_back(measured.operations);
    r.bytes.push_back(measured.bytes);
    r.per_cpu_second.push_back(measured.per_cpu_second);
  }

  [[nodiscard]] json to_json() const {
    json about = machine();
    about["folder"] = chosen_.folder.string();
    about["mount"] = mount_of(chosen_.folder);
    about["disk"] = chosen_.disk.string();
    about["mount_of_disk"] = mount_of(chosen_.disk);
    json result = {{"icecore", library_version()}, {"machine", std::move(about)}};
    result["resumable"] = {{"sleep_us", chosen_.sleep_us}, {"seconds", chosen_.seconds}};
    for (const kind& k : all_kinds()) result["stores"].push_back({{"name", k.name}, {"configuration", k.what}});
    result["rows"] = json::array();
    for (const auto& [at, r] : rows_) {
      const auto [least, greatest] = std::ranges::minmax(r.rates);
      json one = {{"suite", at.suite},
                  {"workload", at.workload},
                  {"store", at.store},
                  {"threads", at.threads},
                  {"n", r.n},
                  {"repetitions", r.rates.size()},
                  {"ops_per_second", median(r.rates)},
                  {"min", least},
                  {"max", greatest},
                  {"operations", median(r.operations)}};
      if (at.threads > std::thread::hardware_concurrency()) one["oversubscribed"] = true;
      if (at.suite == suite_2) one["unit"] = "queries/s";
      if (at.suite == suite_1) one["ops_per_cpu_second"] = median(r.per_cpu_second);
      if (median(r.bytes) > 0) one["bytes"] = median(r.bytes);
      result["rows"].push_back(std::move(one));
    }
    return result;
  }

  void print() const {
    table shown({"suite", "workload", "threads", "store", "a second", "a CPU second", "seconds", "MiB in use"});
    constexpr double mebibyte = 1 << 20;
    for (const auto& [at, r] : rows_) {
      const double rate = median(r.rates);
      shown.add({at.suite, at.workload, std::to_string(at.threads), at.store, fmt::format("{:.4g}", rate),
                 at.suite == suite_1 ? fmt::format("{:.4g}", median(r.per_cpu_second)) : "",
                 at.suite == suite_2 ? fixed(1 / rate, 3) : "", fixed(median(r.bytes) / mebibyte, 1)});
    }
    shown.print();
  }

 private:
  struct row {
    std::uint64_t n = 0;
    std::vector<double> rates, operations, bytes, per_cpu_second;
  };
  settings chosen_;
  std::map<point, row> rows_;
};

/// Those of the kinds in the order of this repetition.
std::vector<const kind*> in_turn(unsigned repetition, bool with_files) {
  std::vector<const kind*> kinds;
  for (const kind& k : all_kinds()) {
    if (with_files || !k.name.starts_with("FS")) kinds.push_back(&k);
  }
  std::ranges::rotate(kinds, kinds.begin() + static_cast<std::ptrdiff_t>(repetition % kinds.size()));
  return kinds;
}

void figure_1(const settings& chosen, unsigned repetition, results& all) {
  for (const structure is : {structure::skip_list, structure::hash_table}) {
    for (const mix& does : {write_heavy, read_mostly}) {
      for (const unsigned threads : chosen.threads) {
        for (const kind* k : in_turn(repetition, false)) {
          const std::string workload = fmt::format("{} {}", name_of(is), does.name);
          tell(fmt::format("figure 1, repetition {}: {}, {} threads, {}", repetition + 1, workload, threads, k->name));
          all.add({suite_1, workload, k->name, threads}, chosen.keys, throughput(chosen, *k, is, does, threads));
        }
      }
    }
  }
}

void figure_2(const settings& chosen, unsigned repetition, results& all) {
  const auto measure = [&](structure is, std::size_t item_size) {
    const std::string workload = fmt::format("{} {} B", name_of(is), item_size);
    for (const kind* k : in_turn(repetition, true)) {
      tell(fmt::format("figure 2, repetition {}: {}, {}", repetition + 1, workload, k->name));
      all.add({suite_2, workload, k->name, 1}, chosen.items, completion(chosen, *k, is, item_size));
    }
  };
  measure(structure::skip_list, sizeof(std::uint64_t));
  for (const std::size_t size : chosen.item_sizes) measure(structure::hash_table, size);
}

int measure(const settings& chosen, unsigned figure, const std::string& path) {
  results all(chosen);
  for (unsigned repetition = 0; repetition < chosen.repetitions; ++repetition) {
    if (figure != 2) figure_1(chosen, repetition, all);
    if (figure != 1) figure_2(chosen, repetition, all);
    if (path.empty()) continue;
    std::ofstream out(path);
    out << all.to_json().dump(2) << '\n';
    if (!out.flush()) throw std::runtime_error("cannot write " + path);
  }
  tell("");
  all.print();
  return 0;
}

}  // namespace
}  // namespace icecore::bench::resumable

int main(int argc, char** argv) {
  using namespace icecore::bench::resumable;
  CLI::App app{
      "Figures 1 and 2 of \"Efficient Resumable Filter Queries\", with icecore beside the paper's data types."};
  settings chosen;
  unsigned figure = 0;
  std::string path;
  bool full = false;
  app.add_option("--figure", figure, "1: throughput beside a query; 2: time of a query that is killed; default: both")
      ->check(CLI::Range(1, 2));
  app.add_option("--keys", chosen.keys, "Figure 1: keys, of which half are loaded")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{100}, std::uint64_t{100'000'000}));
  app.add_option("--threads", chosen.threads, "Figure 1: threads that do operations, beside the query's")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--seconds", chosen.seconds, "Figure 1: of each point")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 60.0));
  app.add_option("--items", chosen.items, "Figure 2: items that are loaded")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{20}, std::uint64_t{10'000'000}));
  app.add_option("--item-sizes", chosen.item_sizes, "Figure 2: bytes of the hash table's items, multiples of 8")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(8, 1 << 20));
  app.add_option("--sleep-us", chosen.sleep_us, "What a query sleeps for each item")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--repetitions", chosen.repetitions)->capture_default_str()->check(CLI::Range(1, 100));
  app.add_flag("--full", full, "The paper's sizes: 1,000,000 keys, 1 to 64 threads, 5 repetitions, 100,000 items");
  app.add_option("--folder", chosen.folder, "A folder in memory")->capture_default_str()->check(CLI::ExistingDirectory);
  app.add_option("--disk", chosen.disk, "A folder on a disk")->capture_default_str()->check(CLI::ExistingDirectory);
  app.add_option("--json", path, "Write the figures to this file, after each repetition");
  CLI11_PARSE(app, argc, argv);
  if (full) {
    chosen.keys = 1'000'000;
    chosen.threads = {1, 2, 4, 8, 16, 32, 64};
    chosen.repetitions = 5;
    chosen.seconds = 2;
    chosen.items = 100'000;
  }
  try {
    return measure(chosen, figure, path);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "icecore_resumable: %s\n", failure.what());
    return 1;
  }
}
