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

#include "icecore/icecore.hpp"
#include "isolated.hpp"
#include "machine_limits.hpp"
#include "measure.hpp"
#include "progress.hpp"
#include "report.hpp"

namespace icecore::bench {
namespace {

const std::string limits_name = "limits";
const std::string machine_name = "machine";
const std::string folder_prefix = "icecore-bench-";

/// The lock of a scratch folder: held while its run lives, whoever else sees the folder.
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

/// Removes what runs left that were killed themselves: scratch folders, by name and by the lock in them, that nobody
/// holds.
void remove_folders_of_the_dead(const std::filesystem::path& where) {
  for (const auto& entry : std::filesystem::directory_iterator(where)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(folder_prefix)) continue;
    const std::string number = name.substr(folder_prefix.size());
    if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos) continue;
    const folder_lock lock(entry.path());
    if (!lock.taken()) continue;  // it lives, is another user's, or is not ours at all
    std::error_code ignored;
    std::filesystem::remove_all(entry.path(), ignored);
  }
}

/// Half the distance from the least to the greatest, of the median.
double spread(const std::vector<double>& rates) {
  const auto [least, greatest] = std::ranges::minmax(rates);
  return (greatest - least) / 2 / median(rates);
}

std::string short_number(double number) {
  constexpr double thousand = 1e3;
  for (const auto& [unit, size] : {std::pair{" G", 1e9}, std::pair{" M", 1e6}, std::pair{" k", thousand}}) {
    if (number >= size) return fmt::format("{:.2f}{}", number / size, unit);
  }
  return fmt::format("{:.3g}", number);
}

}  // namespace

comparison::comparison(comparison_settings chosen) : chosen_(std::move(chosen)) {}

void comparison::measure(const std::function<bool()>& stopped, const std::function<void()>& after_repetition) {
  const auto suites = chosen_.suites.size();
  const auto stores = chosen_.stores.size();
  remove_folders_of_the_dead(chosen_.folder);
  std::vector<std::vector<stage>> stages;
  for (const suite* s : chosen_.suites) stages.push_back(s->prepare(chosen_.n));

  cli::progress_bar bar("measuring", chosen_.repetitions * suites * chosen_.threads.size() * stores, "runs");
  std::uint64_t done = 0;
  for (unsigned repetition = 0; repetition < chosen_.repetitions; ++repetition) {
    const auto before = rows_;
    measure_limits();
    for (std::size_t suite = 0; suite < suites; ++suite) {
      for (const unsigned threads : chosen_.threads) {
        for (std::size_t turn = 0; turn < stores; ++turn) {
          const std::size_t store = (turn + repetition) % stores;
          bar.update(done++, fmt::format("repetition {} of {}: {}, {} threads, {}", repetition + 1, chosen_.repetitions,
                                         suite_name(suite), threads, store_name(suite, store)));
          const std::size_t failures = failures_.size();
          if (!has_failed(suite, threads, store)) measure_one(suite, stages[suite], threads, store);
          if (stopped()) {
            rows_ = before;
            failures_.resize(failures);  // the signal ended the child, too
            return;
          }
        }
      }
    }
    after_repetition();
  }
}

void comparison::measure_one(std::size_t suite, const std::vector<stage>& stages, unsigned threads, std::size_t store) {
  const store_kind& kind = *chosen_.stores[store];
  const scratch_folder folder(chosen_.folder);
  const shared_array<figures> measured(1);
  try {
    for (const stage& s : stages) {
      if (s.reopens && !kind.survives_kill) continue;
      if (!s.reopens) folder.renew();
      run_and_kill(chosen_.limit_s, [&] { s.work({kind, threads, folder.path(), measured[0]}); });
    }
  } catch (const std::exception& failed) {
    failures_.push_back({suite, threads, store, failed.what()});
    return;
  }
  keep(suite, threads, store, measured[0]);
}

void comparison::keep(std::size_t suite, unsigned threads, std::size_t store, const figures& measured) {
  for (std::size_t i = 0; i < measured.count; ++i) {
    const figure& f = measured.all[i];
    row& r = rows_[{suite, workload_number(f.workload.data()), threads, store}];
    r.n = f.n;
    r.rates.push_back(f.operations / f.seconds);
    if (f.bytes_per_key > 0) r.bytes_per_key.push_back(f.bytes_per_key);
  }
}

void comparison::measure_limits() {
  const std::size_t suite = chosen_.suites.size();  // behind those that were asked for
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
  about["folder"] = chosen_.folder.string();
  about["mount"] = mount_of(chosen_.folder);
  about["sync_folder"] = chosen_.sync_folder.string();
  json result = {{"icecore", library_version()}, {"machine", std::move(about)}};
  for (const suite* s : chosen_.suites) result["suites"].push_back(s->name);
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
                {"max", greatest}};
    if (key.threads > cores) one["oversubscribed"] = true;
    if (!r.unit.empty()) one["unit"] = r.unit;
    if (!r.bytes_per_key.empty()) one["bytes_per_key"] = median(r.bytes_per_key);
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

void comparison::print() const {
  table shown({"suite", "workload", "threads", "store", "a second", "+-", chosen_.stores.front()->name + " is"});
  for (const auto& [key, r] : rows_) {
    const auto first = rows_.find({key.suite, key.workload, key.threads, 0});
    const bool comparable = first != rows_.end() && key.suite < chosen_.suites.size() && key.store != 0;
    shown.add({suite_name(key.suite), workloads_[key.workload], std::to_string(key.threads),
               store_name(key.suite, key.store), short_number(median(r.rates)),
               fmt::format("{:.0f} %", spread(r.rates) * 100),
               comparable ? fmt::format("{:.2f} times as fast", median(first->second.rates) / median(r.rates)) : ""});
  }
  shown.print();
  for (const auto& f : failures_) {
    std::printf("FAILED: %s, %u threads, %s: %s\n", suite_name(f.suite).c_str(), f.threads,
                store_name(f.suite, f.store).c_str(), f.what.c_str());
  }
}

}  // namespace icecore::bench
