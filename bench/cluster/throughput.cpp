// icecore_cluster_throughput: gets and puts per second of a cluster, from random ranks to random keys, directly in
// shared memory and with messages.
//
//   mpirun -np 2 icecore_cluster_throughput --folder /dev/shm --json throughput.json
//
// Every value read is compared with the written one, within the timing. Keys and the order of requests are prepared in
// memory before. Each repetition makes a new cluster for each way and size, in turns.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "icecore/cluster.hpp"
#include "icecore/icecore.hpp"
#include "report.hpp"

namespace {

using namespace icecore::bench;

struct options {
  std::filesystem::path folder = "/dev/shm";
  std::uint64_t keys = 1'000'000;
  std::uint64_t large_values = 4'000;
  std::size_t large_bytes = 128 * 1024;
  std::size_t batch = 1024;
  unsigned repetitions = 5;
  std::vector<std::string> ways = {"direct", "messages"};
  std::vector<std::string> sizes = {"small", "large"};
  bool small_pages = false;
  std::string json_path;
};

/// The required operations per second, by what is measured, for two ranks on a memory file system.
const std::map<std::pair<std::string, std::string>, double> targets = {
    {{"small", "get, find"}, 2.5e6},
    {{"small", "put, insert and fence"}, 3e6},
    {{"large", "get, find"}, 100e3},
    {{"large", "put, insert and barrier"}, 15e3},
};

// ---- Keys and values -----------------------------------------------------------------------------------------------

/// The keys of a run, in the order in which this rank puts its part of them, and gets any of them.
struct work {
  std::vector<std::uint64_t> to_put;
  std::vector<std::uint64_t> to_get;
};

work laid_out(const icecore::cluster& c, std::uint64_t keys, std::uint64_t seed) {
  const auto ranks = static_cast<std::uint64_t>(c.size());
  const auto rank = static_cast<std::uint64_t>(c.rank());
  work all;
  random_numbers any(seed * ranks + rank);
  for (std::uint64_t i = rank; i < keys; i += ranks) {
    all.to_put.push_back(random_key(i));  // random owners, in random order
    all.to_get.push_back(random_key(any.below(keys)));
  }
  return all;
}

std::string_view bytes_of(const std::uint64_t& key) { return {reinterpret_cast<const char*>(&key), sizeof key}; }

/// The value of a key: the key's bytes, mixed, in every page of otherwise equal bytes. So making it takes almost no
/// time, and comparing all of it still distinguishes it from every other value.
class value_maker {
 public:
  explicit value_maker(std::size_t bytes) : value_(bytes, 'v') {}

  [[nodiscard]] std::string_view of(std::uint64_t key) {
    const std::uint64_t mixed = random_key(~key);
    for (std::size_t i = 0; i < value_.size(); i += stride) std::memcpy(value_.data() + i, &mixed, sizeof mixed);
    return value_;
  }

 private:
  static constexpr std::size_t stride = 4096;
  std::string value_;
};

// ---- Measuring -----------------------------------------------------------------------------------------------------

struct row_name {
  std::string size;
  std::string operation;
  std::string way;
  friend auto operator<=>(const row_name&, const row_name&) = default;
};

/// Operations per second of all ranks together, one per repetition.
using rates = std::map<row_name, std::vector<double>>;

void check(bool equal, const char* operation) {
  if (!equal) throw std::runtime_error(std::string(operation) + " gave a wrong value");
}

/// The maximum size of the values of a batch.
constexpr std::size_t batch_bytes_max = 4 << 20;

/// One cluster, filled and read once.
class run {
 public:
  run(icecore::cluster& c, const options& chosen, std::string size, std::string way, std::uint64_t seed, rates& into)
      : c_(c),
        size_(std::move(size)),
        way_(std::move(way)),
        rates_(into),
        keys_(size_ == "small" ? chosen.keys : chosen.large_values),
        value_bytes_(size_ == "small" ? sizeof(std::uint64_t) : chosen.large_bytes),
        batch_(std::clamp<std::size_t>(batch_bytes_max / value_bytes_, 1, chosen.batch)),
        work_(laid_out(c, keys_, seed)),
        values_(value_bytes_) {}

  /// Single puts: the times until this rank's puts are with their owners, and until all are.
  void put_singly() {
    const auto begin = start();
    for (const auto& key : work_.to_put) c_.insert(bytes_of(key), values_.of(key));
    c_.fence();
    const double fenced = seconds_since(begin);
    c_.barrier();
    const double all = seconds_since(begin);
    note("put, insert and fence", fenced);
    note("put, insert and barrier", all);
  }

  void put_in_batches() {
    std::vector<std::string> values(batch_);
    std::vector<icecore::item> items;
    const auto begin = start();
    for (std::size_t i = 0; i < work_.to_put.size(); i += batch_) {
      items.clear();
      for (std::size_t j = i; j < std::min(i + batch_, work_.to_put.size()); ++j) {
        values[j - i] = values_.of(work_.to_put[j]);
        items.push_back({bytes_of(work_.to_put[j]), values[j - i]});
      }
      c_.insert_many(items);
    }
    c_.barrier();
    note("put, insert_many and barrier", seconds_since(begin));
  }

  void get_singly() {
    const auto begin = start();
    for (const auto& key : work_.to_get) check(c_.find(bytes_of(key)) == values_.of(key), "find");
    note("get, find", seconds_since(begin));
  }

  /// Without a copy if the value can be read directly.
  void visit_singly() {
    const auto begin = start();
    for (const auto& key : work_.to_get) {
      bool equal = false;
      c_.visit(bytes_of(key), [&](std::string_view value) { equal = value == values_.of(key); });
      check(equal, "visit");
    }
    note("get, visit", seconds_since(begin));
  }

  void get_in_batches() {
    std::vector<std::string_view> keys;
    const auto begin = start();
    for (std::size_t i = 0; i < work_.to_get.size(); i += batch_) {
      keys.clear();
      const std::size_t end = std::min(i + batch_, work_.to_get.size());
      for (std::size_t j = i; j < end; ++j) keys.push_back(bytes_of(work_.to_get[j]));
      const auto found = c_.find_many(keys);
      for (std::size_t j = i; j < end; ++j) check(found[j - i] == values_.of(work_.to_get[j]), "find_many");
    }
    note("get, find_many", seconds_since(begin));
  }

 private:
  [[nodiscard]] std::chrono::steady_clock::time_point start() {
    c_.barrier();
    return std::chrono::steady_clock::now();
  }

  /// All ranks take the slowest rank's seconds (collective).
  void note(const std::string& operation, double seconds) {
    c_.barrier();
    double slowest = 0;
    MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    rates_[{size_, operation, way_}].push_back(static_cast<double>(keys_) / slowest);
  }

  icecore::cluster& c_;
  std::string size_;
  std::string way_;
  rates& rates_;
  std::uint64_t keys_;
  std::size_t value_bytes_;
  std::size_t batch_;
  work work_;
  value_maker values_;
};

/// A new folder for the pools of all ranks.
std::filesystem::path scratch(const options& chosen) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  long process = getpid();
  MPI_Bcast(&process, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  const auto path = chosen.folder / ("icecore-throughput-" + std::to_string(process));
  if (rank == 0) std::filesystem::remove_all(path);
  MPI_Barrier(MPI_COMM_WORLD);
  return path;
}

/// Single puts and batched puts use two clusters, so that both start with an empty one.
void measure_once(const options& chosen, const std::string& size, const std::string& way, std::uint64_t seed,
                  rates& into) {
  icecore::cluster_options opening;
  opening.store.huge_pages = !chosen.small_pages;
  opening.group_size = way == "direct" ? 0 : 1;
  for (const bool batches : {false, true}) {
    icecore::cluster c(MPI_COMM_WORLD, scratch(chosen), opening);
    run one(c, chosen, size, way, seed, into);
    if (batches) {
      one.put_in_batches();
    } else {
      one.put_singly();
      one.get_singly();
      one.visit_singly();
      one.get_in_batches();
    }
    c.close();
  }
  static_cast<void>(scratch(chosen));
}

// ---- Reporting -----------------------------------------------------------------------------------------------------

void print(const rates& measured, const options& chosen) {
  table out({"value bytes, operation", "way", "median/s", "least", "most", "target", "ratio"});
  for (const auto& [name, some] : measured) {
    const auto target = targets.find({name.size, name.operation});
    const std::size_t bytes = name.size == "small" ? sizeof(std::uint64_t) : chosen.large_bytes;
    out.add({std::to_string(bytes) + ", " + name.operation, name.way, fixed(median(some), 0),
             fixed(*std::ranges::min_element(some), 0), fixed(*std::ranges::max_element(some), 0),
             target == targets.end() ? "" : fixed(target->second, 0),
             target == targets.end() ? "" : fixed(median(some) / target->second, 2)});
  }
  out.print();
}

json report_of(const rates& measured, const options& chosen, int ranks) {
  char mpi[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(mpi, &length);
  json result = {{"library", icecore::library_version()},
                 {"machine", machine()},
                 {"mount", mount_of(chosen.folder)},
                 {"mpi", std::string(mpi, static_cast<std::size_t>(length))},
                 {"ranks", ranks},
                 {"batch", chosen.batch},
                 {"huge_pages", !chosen.small_pages},
                 {"rows", json::array()}};
  for (const auto& [name, some] : measured) {
    const bool small = name.size == "small";
    result["rows"].push_back({{"operation", name.operation},
                              {"way", name.way},
                              {"value_bytes", small ? sizeof(std::uint64_t) : chosen.large_bytes},
                              {"keys", small ? chosen.keys : chosen.large_values},
                              {"repetitions", some.size()},
                              {"ops_per_second", median(some)},
                              {"min", *std::ranges::min_element(some)},
                              {"max", *std::ranges::max_element(some)}});
  }
  return result;
}

void add_options(CLI::App& app, options& chosen) {
  app.add_option("--folder", chosen.folder, "Folder for the clusters")
      ->capture_default_str()
      ->check(CLI::ExistingDirectory);
  app.add_option("--keys", chosen.keys, "Keys with values of 8 bytes, of all ranks together")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{100}, std::uint64_t{1'000'000'000}));
  app.add_option("--large-values", chosen.large_values, "Keys with large values, of all ranks together")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{10}, std::uint64_t{1'000'000}));
  app.add_option("--large-bytes", chosen.large_bytes, "Bytes of a large value")
      ->capture_default_str()
      ->check(CLI::Range(8, 1 << 30));
  app.add_option("--batch", chosen.batch, "Items of one insert_many or find_many")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--repetitions", chosen.repetitions, "Repetitions, of which the median is shown")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--ways", chosen.ways, "direct: all ranks form one storage group; messages: each rank forms its own")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember({"direct", "messages"}));
  app.add_option("--sizes", chosen.sizes, "Sizes of the values: small, large")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember({"small", "large"}));
  app.add_flag("--small-pages", chosen.small_pages, "Use no huge pages");
  app.add_option("--json", chosen.json_path, "Write the figures to this file, too");
}

void measure(const options& chosen) {
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  rates measured;
  for (unsigned repetition = 0; repetition < chosen.repetitions; ++repetition) {
    for (const auto& size : chosen.sizes) {
      for (const auto& way : chosen.ways) {
        if (rank == 0) tell("repetition " + std::to_string(repetition + 1) + ", " + size + " values, " + way);
        measure_once(chosen, size, way, repetition, measured);
      }
    }
  }
  if (rank != 0) return;
  print(measured, chosen);
  if (chosen.json_path.empty()) return;
  std::ofstream out(chosen.json_path);
  out << report_of(measured, chosen, ranks).dump(2) << '\n';
  if (!out.flush()) throw std::runtime_error("cannot write " + chosen.json_path);
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  CLI::App app{"Measures gets and puts a second of a cluster, from random ranks to random keys."};
  options chosen;
  add_options(app, chosen);
  int result = 0;
  try {
    app.parse(argc, argv);
    measure(chosen);
  } catch (const CLI::ParseError& wrong) {
    std::ostringstream nowhere;
    result = rank == 0 ? app.exit(wrong) : app.exit(wrong, nowhere, nowhere);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "icecore_cluster_throughput: rank %d: %s\n", rank, failure.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return result;
}
