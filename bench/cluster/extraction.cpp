// Extraction and finds over the real ranks of a cluster: compares NaiveMerge with OptMerge, and routed finds with
// broadcast finds and with cursors that seek a key and read one item.
//
//   mpirun -np 4 icecore_cluster_extraction --pairs 1000000 --json extraction-4.json
//
// Every rank inserts its share of random 8-byte pairs, whose owners are chosen by hash. All methods take turns within a
// repetition. A figure is the median of the repetitions, each timed from a barrier to the end of the last rank. The
// extracted data is checked outside the timing: number, order and values. Rank 0 makes the finds one by one; the other
// ranks wait in a barrier of the cluster.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "icecore/cluster.hpp"

namespace {

using namespace icecore;

struct settings {
  std::size_t pairs = 100'000;
  std::size_t finds = 2'000;
  int repetitions = 5;
  unsigned threads = 1;
  std::filesystem::path folder = "/dev/shm";
  std::string json;
};

/// A bijection of 64-bit numbers that looks random: the finaliser of splitmix64, Steele, Lea and Flood, OOPSLA 2014.
std::uint64_t mixed(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}
std::string_view bytes_of(const std::uint64_t& number) noexcept {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}
std::uint64_t number_of(std::string_view bytes) noexcept {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data(), std::min(bytes.size(), sizeof number));
  return number;
}
std::uint64_t value_of(std::uint64_t key) noexcept { return mixed(~key); }

void require(bool fine, const char* what) {
  if (!fine) throw std::runtime_error(what);
}

/// The measured methods, which run one after another in each repetition.
struct subject {
  std::string name;
  std::size_t operations;
  std::function<void()> run;
  std::vector<double> seconds{};
};

class run {
 public:
  run(cluster& c, const settings& how)
      : cluster_(c), how_(how), total_(how.pairs * static_cast<std::size_t>(c.size())) {}

  nlohmann::json measure() {
    fill();
    std::vector<subject> all = subjects();
    for (int repetition = 0; repetition <= how_.repetitions; ++repetition) {
      for (subject& each : all) {
        const double seconds = seconds_of(each.run);
        if (repetition > 0) each.seconds.push_back(seconds);  // the first warms up memory
      }
    }
    nlohmann::json rows = nlohmann::json::array();
    for (subject& each : all) rows.push_back(row_of(each));
    return rows;
  }

 private:
  void fill() {
    const auto first = static_cast<std::uint64_t>(cluster_.rank()) * how_.pairs;
    for (std::uint64_t i = first; i < first + how_.pairs; ++i) {
      const std::uint64_t key = mixed(i);
      const std::uint64_t value = value_of(key);
      cluster_.insert(bytes_of(key), bytes_of(value));
    }
    shown_ = cluster_.tag();
  }

  [[nodiscard]] std::vector<subject> subjects() {
    extraction_options linear = options();
    linear.linear_scan = true;
    return {
        extraction("gather", extraction_method::gather, options()),
        extraction("naive_merge", extraction_method::naive_merge, options()),
        extraction("naive_merge_linear_scan", extraction_method::naive_merge, linear),
        extraction("opt_merge", extraction_method::opt_merge, options()),
        extraction("distributed", extraction_method::distributed, options()),
        {"stream", 1, [this] { stream(); }},
        {"cursor", 1, [this] { walk(); }},
        {"find", how_.finds, [this] { find_routed(); }},
        {"seek_and_one_item", how_.finds, [this] { seek(); }},
        {"seek_of_no_key_and_one_item", how_.finds, [this] { seek_between(); }},
        {"find_by_broadcast", how_.finds, [this] { find_by_broadcast(); }},
    };
  }

  [[nodiscard]] extraction_options options() const {
    extraction_options o;
    o.threads = how_.threads;
    return o;
  }

  [[nodiscard]] subject extraction(const std::string& name, extraction_method method, const extraction_options& how) {
    return {name, 1, [this, method, how] { extracted_ = cluster_.at(shown_).extract(method, how); }};
  }

  void stream() {
    std::size_t count = 0;
    cluster_.at(shown_).stream([&](std::span<const item> some) { count += some.size(); });
    require(count == (cluster_.rank() == 0 ? total_ : 0), "the stream lacks pairs");
  }

  void walk() {
    std::size_t count = 0;
    if (cluster_.rank() == 0) {
      for (const item& each : cluster_.at(shown_).range()) count += each.key.size() / sizeof(std::uint64_t);
      require(count == total_, "the cursor lacks pairs");
    }
    cluster_.barrier();
  }

  [[nodiscard]] std::uint64_t asked(std::size_t i) const { return mixed(mixed(i) % total_); }

  void find_routed() {
    if (cluster_.rank() == 0) {
      for (std::size_t i = 0; i < how_.finds; ++i) {
        const std::uint64_t key = asked(i);
        const auto found = cluster_.at(shown_).find(bytes_of(key));
        require(found && number_of(*found) == value_of(key), "a find gave no value or a wrong one");
      }
    }
    cluster_.barrier();
  }

  void seek() {
    if (cluster_.rank() == 0) {
      const cluster_snapshot then = cluster_.at(shown_);
      for (std::size_t i = 0; i < how_.finds; ++i) {
        const std::uint64_t key = asked(i);
        cluster_cursor at = then.cursor();
        at.seek(bytes_of(key));
        require(at.valid() && number_of(at->key) == key && number_of(at->value) == value_of(key),
                "a seek led to no pair or to a wrong one");
      }
    }
    cluster_.barrier();
  }

  /// Seeks keys that directly follow existing ones and that no rank has.
  void seek_between() {
    if (cluster_.rank() == 0) {
      const cluster_snapshot then = cluster_.at(shown_);
      for (std::size_t i = 0; i < how_.finds; ++i) {
        const std::uint64_t key = asked(i);
        const std::string behind = std::string(bytes_of(key)) + '\0';
        cluster_cursor at = then.cursor();
        at.seek(behind);
        require(!at.valid() || (at->key > behind && number_of(at->value) == value_of(number_of(at->key))),
                "a seek led to a wrong pair");
      }
    }
    cluster_.barrier();
  }

  void find_by_broadcast() {
    for (std::size_t i = 0; i < how_.finds; ++i) {
      const std::uint64_t key = asked(i);
      const auto found = cluster_.at(shown_).find_by_broadcast(bytes_of(key));
      if (cluster_.rank() == 0) {
        require(found && number_of(*found) == value_of(key), "a find gave no value or a wrong one");
      }
    }
  }

  /// The time of the slowest rank. Checks the extracted data.
  [[nodiscard]] double seconds_of(const std::function<void()>& work) {
    extracted_ = {};
    cluster_.barrier();
    const auto begin = std::chrono::steady_clock::now();
    work();
    const double mine = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    double slowest = 0;
    cluster_.barrier();  // ranks that waited in MPI itself would not answer
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    check();
    return slowest;
  }

  void check() const {
    std::uint64_t sorted_pairs = 0;
    for (std::size_t i = 0; i < extracted_.size(); ++i) {
      require(number_of(extracted_[i].value) == value_of(number_of(extracted_[i].key)),
              "a value does not belong to its key");
      sorted_pairs += i == 0 || extracted_[i - 1].key < extracted_[i].key ? 1 : 0;
    }
    std::uint64_t pairs[2] = {extracted_.size(), sorted_pairs};
    MPI_Allreduce(MPI_IN_PLACE, pairs, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    require(pairs[0] == 0 || pairs[0] == total_, "pairs are lost");
    // gather keeps only the order within each rank
    require(pairs[0] - pairs[1] < static_cast<std::uint64_t>(cluster_.size()), "pairs are out of order");
  }

  [[nodiscard]] static nlohmann::json row_of(subject& each) {
    std::sort(each.seconds.begin(), each.seconds.end());
    const double median = each.seconds[each.seconds.size() / 2];
    return {{"name", each.name},
            {"milliseconds", 1e3 * median},
            {"least", 1e3 * each.seconds.front()},
            {"greatest", 1e3 * each.seconds.back()},
            {"operations_per_second", static_cast<double>(each.operations) / median}};
  }

  cluster& cluster_;
  const settings& how_;
  std::size_t total_;
  version shown_ = 0;
  extracted_pairs extracted_;
};

double milliseconds_of(const nlohmann::json& rows, std::string_view name) {
  const auto row = std::find_if(rows.begin(), rows.end(), [name](const auto& each) { return each["name"] == name; });
  return (*row)["milliseconds"].template get<double>();
}

void print(const nlohmann::json& rows) {
  std::printf("%-24s %12s %12s %12s %14s\n", "", "median ms", "least", "greatest", "a second");
  for (const auto& row : rows) {
    std::printf("%-24s %12.2f %12.2f %12.2f %14.0f\n", row["name"].get<std::string>().c_str(),
                row["milliseconds"].get<double>(), row["least"].get<double>(), row["greatest"].get<double>(),
                row["operations_per_second"].get<double>());
  }
  const double find = milliseconds_of(rows, "find");
  std::printf("a seek and one item cost %.1f finds; for a key that no rank has, %.1f\n",
              milliseconds_of(rows, "seek_and_one_item") / find,
              milliseconds_of(rows, "seek_of_no_key_and_one_item") / find);
}

void measure(const settings& how) {
  char name[] = "icecore-extraction-XXXXXX";
  std::string path = (how.folder / name).native();
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) require(mkdtemp(path.data()) != nullptr, "cannot make the folder for the stores");
  MPI_Bcast(path.data(), static_cast<int>(path.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  cluster_options opening;
  opening.store.durability = durability::none;
  cluster c(MPI_COMM_WORLD, path, opening);
  const nlohmann::json rows = run(c, how).measure();
  const bool direct = c.size() > 1 && c.reaches_directly((rank + 1) % c.size());
  if (rank == 0) {
    std::printf("%d ranks of %zu pairs, %u threads, %s\n", c.size(), how.pairs, how.threads,
                direct ? "in each other's memory" : "by messages");
    print(rows);
    if (!how.json.empty()) {
      std::ofstream(how.json)
          << nlohmann::json{{"ranks", c.size()}, {"pairs_per_rank", how.pairs},    {"threads", how.threads},
                            {"direct", direct},  {"repetitions", how.repetitions}, {"finds", how.finds},
                            {"rows", rows}}
                 .dump(1)
          << "\n";
    }
  }
  c.close();
  if (rank == 0) std::filesystem::remove_all(path);
}

}  // namespace

int main(int argc, char** argv) {
  settings how;
  CLI::App app("Extraction and find over the ranks of a cluster");
  app.add_option("--pairs", how.pairs, "pairs of each rank")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--finds", how.finds, "finds of each kind")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--repetitions", how.repetitions)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--threads", how.threads, "threads of each rank; 0: all cores")->capture_default_str();
  app.add_option("--folder", how.folder, "folder for the stores")->capture_default_str();
  app.add_option("--json", how.json, "file for the figures");
  CLI11_PARSE(app, argc, argv);
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  try {
    measure(how);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "icecore_cluster_extraction: %s\n", e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
