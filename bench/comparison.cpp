#include "comparison.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>

#include "cores.hpp"
#include "icecore/icecore.hpp"
#include "isolated.hpp"
#include "machine_limits.hpp"
#include "measure.hpp"
#include "report.hpp"
#include "text/progress.hpp"

namespace icecore::bench {
namespace {

const std::string limits_name = "limits";
const std::string machine_name = "machine";
const std::string folder_prefix = "icecore-bench-";

/// The lock of a scratch folder. A living run holds it, so every process that sees the folder knows that it is in use.
class folder_lock {
 public:
  explicit folder_lock(const std::filesystem::path& folder, int flags = 0)
      : descriptor_(open((folder / "in-use").c_str(), O_RDWR | O_CLOEXEC | flags, 0600)) {}
  ~folder_lock() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  folder_lock(const folder_lock&) = delete;
  folder_lock& operator=(const folder_lock&) = delete;
  [[nodiscard]] bool taken() const noexcept { return descriptor_ >= 0 && flock(descriptor_, LOCK_EX | LOCK_NB) == 0; }

 private:
  int descriptor_;
};

/// A folder of this process's own, removed at the end.
class scratch_folder {
 public:
  explicit scratch_folder(const std::filesystem::path& where)
      : own_(made(where / (folder_prefix + std::to_string(getpid())))), path_(own_ / "stores"), lock_(own_, O_CREAT) {
    if (!lock_.taken())
      throw std::system_error(errno, std::generic_category(), "cannot lock a file in " + own_.string());
    renew();
  }
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(own_, ignored);
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  void renew() const {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  static std::filesystem::path made(std::filesystem::path folder) {
    std::filesystem::create_directories(folder);
    return folder;
  }

  std::filesystem::path own_;
  std::filesystem::path path_;
  folder_lock lock_;
};

/// Removes what killed runs left: scratch folders, recognised by their name and by the lock in them, if no process
/// holds it.
void remove_folders_of_the_dead(const std::filesystem::path& where) {
  for (const auto& entry : std::filesystem::directory_iterator(where)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(folder_prefix)) continue;
    const std::string number = name.substr(folder_prefix.size());
    if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos) continue;
    const folder_lock lock(entry.path());
    if (!lock.taken()) continue;  // its run lives, or it belongs to another user, or it is not ours
    std::error_code ignored;
    std::filesystem::remove_all(entry.path(), ignored);
  }
}

/// Half the distance from the least to the greatest, relative to the median.
double spread(const std::vector<double>& rates) {
  const auto [least, greatest] = std::ranges::minmax(rates);
  return (greatest - least) / 2 / median(rates);
}

/// What a store of n keys, some of them written three times, takes at most, with its index and what it keeps aside.
std::uint64_t memory_of(std::uint64_t n) {
  constexpr std::uint64_t of_a_key = 1024, base = std::uint64_t{64} << 20;
  return base + n * of_a_key;
}

std::string short_number(double number) {
  constexpr double thousand = 1e3;
  for (const auto& [unit, size] : {std::pair{" G", 1e9}, std::pair{" M", 1e6}, std::pair{" k", thousand}}) {
    if (number >= size) return fmt::format("{:.2f}{}", number / size, unit);
  }
  return fmt::format("{:.3g}", number);
}

/// The median, the least and the greatest of the repetitions; empty if nothing was measured.
struct summary {
  double median, least, greatest;
};

template <typename Get>
summary summarise(const std::vector<figure>& figures, const Get& get) {
  std::vector<double> all;
  for (const figure& f : figures) all.push_back(get(f));
  const auto [least, greatest] = std::ranges::minmax(all);
  return {.median = median(all), .least = least, .greatest = greatest};
}

/// The percentile as a key of an object: "p99.9", "max".
std::string name_of_percent(double percent) { return percent == 100 ? "max" : fmt::format("p{}", percent); }

std::uint64_t count_of(const std::vector<figure>& figures, std::size_t kind) {
  return figures.empty() ? 0 : figures.front().latencies[kind].count;
}

summary latency_of(const std::vector<figure>& figures, std::size_t kind, std::size_t percentile) {
  return summarise(figures, [&](const figure& f) { return f.latencies[kind].ns[percentile]; });
}

json latencies_of(const std::vector<figure>& figures) {
  json kinds = json::object();
  for (std::size_t kind = 0; kind < ycsb::operation_kind_count; ++kind) {
    if (count_of(figures, kind) == 0) continue;
    json& one = kinds[ycsb::name_of(static_cast<ycsb::operation_kind>(kind))];
    one["count"] = count_of(figures, kind);
    for (std::size_t i = 0; i < latency_figure::percents.size(); ++i) {
      const auto [middle, least, greatest] = latency_of(figures, kind, i);
      one[name_of_percent(latency_figure::percents[i])] = {middle, least, greatest};
    }
  }
  return kinds;
}

json described(const ycsb::settings& chosen) {
  json about = {{"theta", chosen.theta}, {"value_size", chosen.value_size}};
  about["distribution"] = chosen.chosen ? ycsb::name_of(*chosen.chosen) : "of each workload";
  if (chosen.operations != 0) about["operations"] = chosen.operations;
  if (chosen.seconds > 0) about["seconds"] = chosen.seconds;
  return about;
}

json tenths_of(const std::vector<figure>& figures) {
  json tenths = json::array();
  const auto any = [](const figure& f) { return std::ranges::any_of(f.per_tenth, [](double n) { return n > 0; }); };
  if (!std::ranges::any_of(figures, any)) return tenths;
  for (std::size_t i = 0; i < figures.front().per_tenth.size(); ++i) {
    tenths.push_back(summarise(figures, [i](const figure& f) { return f.per_tenth[i]; }).median);
  }
  return tenths;
}

}  // namespace

comparison::comparison(comparison_settings chosen) : chosen_(std::move(chosen)) {}

void comparison::measure(const std::function<bool()>& stopped, const std::function<void()>& after_repetition) {
  const auto suites = chosen_.suites.size();
  const auto stores = chosen_.stores.size();
  remove_folders_of_the_dead(chosen_.folder);
  std::vector<std::vector<stage>> stages;
  for (const suite* s : chosen_.suites) stages.push_back(s->prepare(chosen_.n));

  const unsigned most =
      chosen_.spread_max > 0 ? std::max(chosen_.repetitions, chosen_.repetitions_max) : chosen_.repetitions;
  cli::progress_bar bar("measuring", most * runs_in_a_repetition(), "runs at most");
  std::uint64_t done = 0;
  for (unsigned repetition = 0; repetition < most && !is_enough(repetition); ++repetition) {
    const auto before = rows_;
    measure_limits();
    for (std::size_t suite = 0; suite < suites; ++suite) {
      for (const unsigned threads : chosen_.threads) {
        for (std::size_t turn = 0; turn < stores; ++turn) {
          const std::size_t store = (turn + repetition) % stores;
          if (!chosen_.suites[suite]->measures(*chosen_.stores[store])) continue;
          bar.update(done++, fmt::format("repetition {} of {}: {}, {} threads, {}", repetition + 1, most,
                                         suite_name(suite), threads, store_name(suite, store)));
          const std::size_t failures = failures_.size();
          if (!has_failed(suite, threads, store)) measure_one(suite, stages[suite], threads, store);
          if (stopped()) {
            rows_ = before;
            failures_.resize(failures);  // the signal ended the child too
            return;
          }
        }
      }
    }
    after_repetition();
  }
}

std::size_t comparison::runs_in_a_repetition() const {
  std::size_t runs = 0;
  for (const suite* s : chosen_.suites) {
    const auto measured = [s](const store_kind* kind) { return s->measures(*kind); };
    runs += chosen_.threads.size() * static_cast<std::size_t>(std::ranges::count_if(chosen_.stores, measured));
  }
  return runs;
}

void comparison::measure_one(std::size_t suite, const std::vector<stage>& stages, unsigned threads, std::size_t store) {
  const store_kind& kind = *chosen_.stores[store];
  const scratch_folder folder(chosen_.folder);
  const shared_array<figures> measured(1);
  const run one{kind, threads, folder.path(), measured[0], chosen_.memory};
  const other_load others;
  double own_s = 0;
  try {
    for (const stage& s : stages) {
      if (s.reopens && !kind.survives_kill) continue;
      if (!s.reopens) folder.renew();
      own_s += run_and_kill(chosen_.limit_s, [&] {
        if (chosen_.suites[suite]->form == store_form::versions) one.touch(memory_of(chosen_.n));
        s.work(one);
      });
    }
  } catch (const std::exception& failed) {
    failures_.push_back({suite, threads, store, failed.what()});
    return;
  }
  keep(suite, threads, store, measured[0], others.cores(own_s));
}

bool comparison::is_settled(const row& r) const {
  const auto [low, high, confidence] = interval_of_median(r.rates);
  return confidence > 0 && (high - low) / 2 <= chosen_.spread_max * median(r.rates);
}

bool comparison::is_enough(unsigned repetitions) const {
  if (repetitions < chosen_.repetitions || chosen_.spread_max == 0) return false;
  // The machine's limits are context, and no result.
  return std::ranges::all_of(
      rows_, [this](const auto& one) { return one.first.suite >= chosen_.suites.size() || is_settled(one.second); });
}

/// Of the ratios within each repetition, which had the same other load as nearly as can be.
interval comparison::ratio_to_first(const row_key& key, const row& r) const {
  const row* const first = first_of(key);
  if (first == nullptr || first == &r || !r.unit.empty() || first->rates.size() != r.rates.size()) return {};
  std::vector<double> ratios;
  for (std::size_t i = 0; i < r.rates.size(); ++i) ratios.push_back(first->rates[i] / r.rates[i]);
  return interval_of_median(ratios);
}

void comparison::keep(std::size_t suite, unsigned threads, std::size_t store, const figures& measured, double others) {
  for (std::size_t i = 0; i < measured.count; ++i) {
    const figure& f = measured.all[i];
    row& r = rows_[{suite, workload_number(f.workload.data()), threads, store}];
    r.n = f.n;
    r.unit = f.unit.data();
    r.rates.push_back(f.operations / f.seconds);
    r.others.push_back(others);
    if (f.bytes_per_key > 0) r.bytes_per_key.push_back(f.bytes_per_key);
    r.figures.push_back(f);
  }
}

void comparison::measure_limits() {
  const std::size_t suite = chosen_.suites.size();  // after the requested suites
  for (const auto& limit : measure_machine_limits(chosen_.threads, chosen_.sync_folder)) {
    row& r = rows_[{suite, workload_number(limit.name), limit.threads, 0}];
    r.n = limit.n;
    r.unit = limit.unit;
    r.rates.push_back(limit.per_second);
  }
}

bool comparison::has_failed(std::size_t suite, unsigned threads, std::size_t store) const {
  return std::ranges::any_of(
      failures_, [&](const failure& f) { return f.suite == suite && f.threads == threads && f.store == store; });
}

std::size_t comparison::workload_number(std::string_view name) {
  const auto found = std::ranges::find(workloads_, name);
  if (found != workloads_.end()) return static_cast<std::size_t>(found - workloads_.begin());
  workloads_.emplace_back(name);
  return workloads_.size() - 1;
}

const std::string& comparison::suite_name(std::size_t suite) const {
  return suite < chosen_.suites.size() ? chosen_.suites[suite]->name : limits_name;
}

const std::string& comparison::store_name(std::size_t suite, std::size_t store) const {
  return suite < chosen_.suites.size() ? chosen_.stores[store]->name : machine_name;
}

json comparison::to_json() const {
  const unsigned cores = std::thread::hardware_concurrency();
  json about = machine();
  about["memory"] = name_of(chosen_.memory);
  about["threads_kept_on_cores"] = threads_are_kept_on_cores();
  about["folder"] = chosen_.folder.string();
  about["mount"] = mount_of(chosen_.folder);
  about["sync_folder"] = chosen_.sync_folder.string();
  json result = {{"icecore", library_version()}, {"machine", std::move(about)}};
  for (const suite* s : chosen_.suites) result["suites"].push_back(s->name);
  if (std::ranges::find(chosen_.suites, store_form::map, &suite::form) != chosen_.suites.end())
    result["ycsb"] = described(chosen_.of_ycsb);
  for (const store_kind* k : chosen_.stores) {
    result["stores"].push_back({{"name", k->name}, {"configuration", k->configuration}});
  }
  result["rows"] = json::array();
  for (const auto& [key, r] : rows_) {
    const auto [least, greatest] = std::ranges::minmax(r.rates);
    json one = {{"suite", suite_name(key.suite)},
                {"workload", workloads_[key.workload]},
                {"store", store_name(key.suite, key.store)},
                {"threads", key.threads},
                {"n", r.n},
                {"repetitions", r.rates.size()},
                {"ops_per_second", median(r.rates)},
                {"min", least},
                {"max", greatest},
                {"rates", r.rates}};
    if (const auto [low, high, confidence] = interval_of_median(r.rates); confidence > 0)
      one["interval"] = {{"low", low}, {"high", high}, {"confidence", confidence}};
    if (chosen_.spread_max > 0) one["settled"] = is_settled(r);
    if (key.suite < chosen_.suites.size()) one["memory"] = name_of(chosen_.memory);
    if (!r.others.empty()) one["other_cores"] = median(r.others);
    if (key.threads > cores) one["oversubscribed"] = true;
    if (!r.unit.empty()) one["unit"] = r.unit;
    if (!r.bytes_per_key.empty()) one["bytes_per_key"] = median(r.bytes_per_key);
    if (json all = latencies_of(r.figures); !all.empty()) one["latency_ns"] = std::move(all);
    if (json tenths = tenths_of(r.figures); !tenths.empty()) one["operations_in_tenths"] = std::move(tenths);
    result["rows"].push_back(std::move(one));
  }
  result["failures"] = json::array();
  for (const auto& f : failures_) {
    result["failures"].push_back({{"suite", suite_name(f.suite)},
                                  {"store", store_name(f.suite, f.store)},
                                  {"threads", f.threads},
                                  {"what", f.what}});
  }
  return result;
}

/// The row for the same workload and threads of the first store; null for rows of the machine.
const comparison::row* comparison::first_of(const row_key& key) const {
  if (key.suite >= chosen_.suites.size()) return nullptr;
  const auto first = rows_.lower_bound({key.suite, key.workload, key.threads, 0});
  return first == rows_.end() ? nullptr : &first->second;
}

void comparison::print() const {
  constexpr double others_told = 0.1;
  double busiest = 0;
  std::size_t unsettled = 0;
  table shown({"suite", "workload", "threads", "memory", "store", "a second", "+-", "others' cores", "the first is",
               "interval"});
  for (const auto& [key, r] : rows_) {
    const row* const first = first_of(key);
    const bool comparable = first != nullptr && first != &r && r.unit.empty();  // of values, less may be better
    const bool of_store = key.suite < chosen_.suites.size();
    const interval ratio = ratio_to_first(key, r);
    shown.add({suite_name(key.suite), workloads_[key.workload], std::to_string(key.threads),
               of_store ? std::string(name_of(chosen_.memory)) : "", store_name(key.suite, key.store),
               short_number(median(r.rates)), fmt::format("{:.0f} %", spread(r.rates) * 100),
               r.others.empty() ? "" : fixed(median(r.others), 2),
               comparable ? fmt::format("{:.2f} times as fast", median(first->rates) / median(r.rates)) : "",
               ratio.confidence > 0 ? fmt::format("{:.2f} to {:.2f}", ratio.low, ratio.high) : ""});
    if (!r.others.empty()) busiest = std::max(busiest, median(r.others));
    if (of_store && !is_settled(r)) ++unsettled;
  }
  shown.print();
  if (busiest > others_told) {
    std::printf("NOT QUIET: other programs kept up to %.2f cores busy; these figures would be others without them.\n",
                busiest);
  }
  if (chosen_.spread_max > 0 && unsettled > 0) {
    std::printf("NOT SETTLED: %zu rows spread by more than %g %% after all repetitions.\n", unsettled,
                chosen_.spread_max * 100);
  }
  print_latencies();
  for (const auto& f : failures_) {
    std::printf("FAILED: %s, %u threads, %s: %s\n", suite_name(f.suite).c_str(), f.threads,
                store_name(f.suite, f.store).c_str(), f.what.c_str());
  }
}

void comparison::print_latencies() const {
  std::vector<std::string> heads = {"latency in us of", "", "threads", "store"};
  for (const double percent : latency_figure::percents) heads.push_back(name_of_percent(percent));
  table shown(std::move(heads));
  bool any = false;
  for (const auto& [key, r] : rows_) {
    for (std::size_t kind = 0; kind < ycsb::operation_kind_count; ++kind) {
      if (count_of(r.figures, kind) == 0) continue;
      any = true;
      std::vector<std::string> line = {workloads_[key.workload], ycsb::name_of(static_cast<ycsb::operation_kind>(kind)),
                                       std::to_string(key.threads), store_name(key.suite, key.store)};
      for (std::size_t i = 0; i < latency_figure::percents.size(); ++i) {
        line.push_back(fixed(latency_of(r.figures, kind, i).median / 1000, 2));
      }
      shown.add(std::move(line));
    }
  }
  if (!any) return;
  std::printf("\n");
  shown.print();
}

}  // namespace icecore::bench
