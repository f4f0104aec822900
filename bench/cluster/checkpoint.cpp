// Compares checkpoint and restart of a cluster with `cp` of the same files, and measures writes during a checkpoint.
//
//   mpirun -np 2 icecore_cluster_checkpoint --records 4000 --value-bytes 131072 --folder /scratch
//   mpirun -np 2 icecore_cluster_checkpoint --records 0 --small-records 2000000 --folder /dev/shm --checkpoints
//   /scratch
//
// Every rank inserts its records, and small ones with 8 bytes of key and value. Each repetition runs these steps one
// after another, each timed from a barrier to the end of the last rank:
//   cp in           every rank runs cp on its checkpoint file, to where the pools are, and sync on the copy
//   restore         cluster::restore on the same ranks, with all checks, until it is open
//   redistribute    the same, but every record is sent to its owner anew
//   cp out          every rank runs cp on that copy, to where the checkpoints are, and sync on it
//   checkpoint      cluster::checkpoint and wait
// Then each repetition runs these steps, so that their writes are in none of the checkpoints above:
//   writes          inserts of 8-byte values to random owners, a fence at the end, for --seconds
//   writes during   the same while checkpoints are written one after another
// With --cold the checkpoint's files are dropped from the page cache before each of the first three steps. The first
// repetition warms up and is not counted. Figures are medians, with the least and the greatest; a ratio is the median
// of the ratios of the repetitions.
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "icecore/cluster.hpp"

namespace {

using namespace icecore;
using steady = std::chrono::steady_clock;

struct settings {
  std::uint64_t records = 10'000;
  std::size_t value_bytes = 131'072;
  std::uint64_t small_records = 0;
  bool cold = false;
  bool small_pages = false;
  int repetitions = 5;
  double seconds = 1.0;
  std::filesystem::path folder = "/dev/shm";
  std::filesystem::path checkpoints;
  std::string json;
};

void run_shell(const std::string& command) {
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
}

double seconds_since(steady::time_point begin) { return std::chrono::duration<double>(steady::now() - begin).count(); }

struct figure {
  std::string name;
  std::string unit;
  std::vector<double> values{};

  [[nodiscard]] double median() const {
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? 0 : sorted[sorted.size() / 2];
  }
};

class run {
 public:
  run(const settings& how, const std::filesystem::path& scratch, std::filesystem::path target)
      : how_(how), scratch_(scratch), target_(std::move(target)), cluster_(MPI_COMM_WORLD, scratch / "store") {
    const std::string own = std::to_string(cluster_.rank()) + "/";
    std::string value(how_.value_bytes, 'v');
    for (std::uint64_t i = 0; i < how_.records; ++i) {
      const std::string key = own + std::to_string(i);
      value.replace(0, std::min(key.size(), value.size()), key, 0, std::min(key.size(), value.size()));
      cluster_.insert(key, value);
    }
    for (std::uint64_t i = 0; i < how_.small_records; ++i) {
      const std::uint64_t key = random_();
      cluster_.insert({reinterpret_cast<const char*>(&key), sizeof key}, {reinterpret_cast<const char*>(&i), sizeof i});
    }
    cluster_.insert(own, own);
    cluster_.tag("filled");
    cluster_.barrier();
    cluster_.checkpoint(target_).wait();
    MPI_Barrier(MPI_COMM_WORLD);
  }

  void copy(bool counted) {
    const std::string name = "copy-" + std::to_string(cluster_.rank());
    const std::filesystem::path part = own_file();
    forget(part);
    keep(counted, cp_in_, timed([&] { cp(part, scratch_ / name); }));
    restore(counted, restore_, false);
    restore(counted, redistribute_, true);
    keep(counted, cp_out_, timed([&] { cp(scratch_ / name, target_ / name); }));
    std::filesystem::remove(scratch_ / name);
    std::filesystem::remove(target_ / name);
    keep(counted, checkpoint_, timed([&] { cluster_.checkpoint(target_).wait(); }));
  }

  void write(bool counted) {
    keep(counted, alone_, writes_per_second(false));
    keep(counted, during_, writes_per_second(true));
  }

  [[nodiscard]] nlohmann::json report() {
    nlohmann::json rows = nlohmann::json::array();
    for (const figure* each : {&cp_in_, &restore_, &redistribute_, &cp_out_, &checkpoint_, &alone_, &during_}) {
      if (!each->values.empty()) rows.push_back(row(*each));
    }
    for (const auto& [name, of, to] : {std::tuple("restore to cp in", &restore_, &cp_in_),
                                       std::tuple("redistribute to cp in", &redistribute_, &cp_in_),
                                       std::tuple("checkpoint to cp out", &checkpoint_, &cp_out_),
                                       std::tuple("writes during to writes", &during_, &alone_)}) {
      figure ratio{name, "times"};
      for (std::size_t i = 0; i < of->values.size(); ++i) ratio.values.push_back(of->values[i] / to->values[i]);
      if (!ratio.values.empty()) rows.push_back(row(ratio));
    }
    return {{"ranks", cluster_.size()},
            {"records_a_rank", how_.records},
            {"value_bytes", how_.value_bytes},
            {"small_records_a_rank", how_.small_records},
            {"cold", how_.cold},
            {"bytes", bytes_},
            {"rows", rows}};
  }

  /// The bytes of the checkpoint that is restored.
  void note_bytes() {
    std::uint64_t mine = std::filesystem::file_size(own_file());
    MPI_Allreduce(&mine, &bytes_, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  }
  void close() { cluster_.close(); }

 private:
  /// The time of all ranks: from the last one's start to the last one's end.
  [[nodiscard]] static double timed(const std::function<void()>& work) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto begin = steady::now();
    work();
    MPI_Barrier(MPI_COMM_WORLD);
    return seconds_since(begin);
  }

  static void keep(bool counted, figure& in, double value) {
    if (counted) in.values.push_back(value);
  }

  static nlohmann::json row(const figure& of) {
    const auto [least, greatest] = std::minmax_element(of.values.begin(), of.values.end());
    return {{"what", of.name}, {"unit", of.unit}, {"median", of.median()}, {"least", *least}, {"greatest", *greatest}};
  }

  static void cp(const std::filesystem::path& from, const std::filesystem::path& to) {
    run_shell("cp --reflink=never '" + from.native() + "' '" + to.native() + "' && sync '" + to.native() + "'");
  }

  /// Drops the file from the page cache if requested.
  void forget(const std::filesystem::path& file) const {
    if (!how_.cold) return;
    const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || fsync(descriptor) != 0 || posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) != 0) {
      throw std::runtime_error(file.native() + " cannot be dropped from the page cache");
    }
    ::close(descriptor);
  }

  [[nodiscard]] std::filesystem::path own_file() const {
    const std::string begin = "rank-" + std::to_string(cluster_.rank()) + ".";
    for (const auto& each : std::filesystem::directory_iterator(target_)) {
      if (each.path().filename().native().starts_with(begin)) return each.path();
    }
    throw std::runtime_error("the checkpoint has no file of this rank");
  }

  void restore(bool counted, figure& in, bool redistribute) {
    const std::filesystem::path to = scratch_ / "restored";
    cluster_options opening;
    opening.store.huge_pages = !how_.small_pages;
    forget(own_file());
    std::optional<cluster> restored;
    keep(counted, in, timed([&] {
           restored.emplace(cluster::restore(MPI_COMM_WORLD, {target_, redistribute}, to, opening));
         }));
    for (const std::string& key : {std::to_string(cluster_.rank()) + "/", std::to_string(cluster_.rank()) + "/0"}) {
      if (restored->at("filled").find(key) != cluster_.at("filled").find(key)) {
        throw std::runtime_error("the restored data differs from what was written");
      }
    }
    restored->close();
    MPI_Barrier(MPI_COMM_WORLD);
    if (cluster_.rank() == 0) std::filesystem::remove_all(to);
    MPI_Barrier(MPI_COMM_WORLD);
  }

  /// The sum of all ranks.
  [[nodiscard]] double writes_per_second(bool checkpoints) {
    checkpoint_event writing;
    if (checkpoints) writing = cluster_.checkpoint(target_);
    MPI_Barrier(MPI_COMM_WORLD);
    const auto begin = steady::now();
    std::uint64_t writes = 0;
    const auto may_go_on = [&] { return checkpoints ? !writing.done() : seconds_since(begin) < how_.seconds; };
    do {
      for (int i = 0; i < 256; ++i) {
        std::uint64_t key = random_() % (1 << 20);
        cluster_.insert({reinterpret_cast<const char*>(&key), sizeof key}, {reinterpret_cast<const char*>(&writes), 8});
        ++writes;
      }
    } while (may_go_on());
    cluster_.fence();
    double rate = static_cast<double>(writes) / seconds_since(begin);
    writing.wait();
    double total = 0;
    MPI_Allreduce(&rate, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return total;
  }

  const settings& how_;
  std::filesystem::path scratch_;
  std::filesystem::path target_;
  cluster cluster_;
  std::mt19937_64 random_{std::random_device{}()};
  std::uint64_t bytes_ = 0;
  figure cp_in_{"cp in", "s"};
  figure restore_{"restore", "s"};
  figure redistribute_{"redistribute", "s"};
  figure cp_out_{"cp out", "s"};
  figure checkpoint_{"checkpoint", "s"};
  figure alone_{"writes", "1/s"};
  figure during_{"writes during a checkpoint", "1/s"};
};

/// A new folder, with the same name on all ranks.
std::filesystem::path shared_folder(const std::filesystem::path& under, const char* name) {
  std::string path = (under / (std::string(name) + "-XXXXXX")).native();
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0 && mkdtemp(path.data()) == nullptr) throw std::runtime_error(path + ": cannot make the folder");
  MPI_Bcast(path.data(), static_cast<int>(path.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  return path;
}

void print(const nlohmann::json& all) {
  std::printf("%d ranks, %.1f MB\n", all["ranks"].get<int>(), all["bytes"].get<double>() / 1e6);
  for (const auto& row : all["rows"]) {
    std::printf("%-28s %14.3f %-4s %14.3f .. %.3f\n", row["what"].get<std::string>().c_str(),
                row["median"].get<double>(), row["unit"].get<std::string>().c_str(), row["least"].get<double>(),
                row["greatest"].get<double>());
  }
}

int measure(const settings& how) {
  const std::filesystem::path scratch = shared_folder(how.folder, "icecore-checkpoint");
  const std::filesystem::path target =
      shared_folder(how.checkpoints.empty() ? how.folder : how.checkpoints, "icecore-target");
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  {
    run all(how, scratch, target);
    all.note_bytes();
    for (int i = 0; i <= how.repetitions; ++i) all.copy(i > 0);
    for (int i = 0; i <= how.repetitions && how.seconds > 0; ++i) all.write(i > 0);
    const nlohmann::json report = all.report();
    all.close();
    if (rank == 0) {
      print(report);
      if (!how.json.empty()) std::ofstream(how.json) << report.dump(2) << '\n';
    }
  }
  if (rank == 0) {
    std::filesystem::remove_all(scratch);
    std::filesystem::remove_all(target);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  settings how;
  CLI::App app{"Compares checkpoint and restart of a cluster with cp of the same files"};
  app.add_option("--records", how.records, "Records of each rank")->capture_default_str();
  app.add_option("--value-bytes", how.value_bytes, "Size of a value")->capture_default_str();
  app.add_option("--small-records", how.small_records, "Small records that each rank writes in addition")
      ->capture_default_str();
  app.add_flag("--cold", how.cold, "Drop the checkpoint's files from the page cache before they are read");
  app.add_flag("--small-pages", how.small_pages, "Restore to pools without huge pages");
  app.add_option("--repetitions", how.repetitions, "Repetitions that count")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seconds", how.seconds, "Seconds for which writes alone are measured; 0: no writes are measured")
      ->capture_default_str();
  app.add_option("--folder", how.folder, "Folder of the cluster")->capture_default_str();
  app.add_option("--checkpoints", how.checkpoints, "Folder for the checkpoints (default: --folder)");
  app.add_option("--json", how.json, "Also write the figures to this file");
  int status = 0;
  try {
    app.parse(argc, argv);
    status = measure(how);
  } catch (const CLI::ParseError& e) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    status = rank == 0 ? app.exit(e) : 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "icecore_cluster_checkpoint: %s\n", e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return status;
}
