// Finds and snapshot extraction over the ranks of a simulated machine: every rank has an icecore store of its own, all
// in one process, under SimGrid's SMPI. It also runs under any other MPI, and then measures that.
//
//   smpirun ... icecore_simulated extract --pairs 100000 --folder /dev/shm/x     one JSON line of seconds
//   smpirun ... icecore_simulated find --queries 1000                            one JSON line of queries a second
//
// The time is MPI_Wtime of rank 0 from a barrier to the end of a call: simulated seconds under SMPI. All results are
// checked: extraction by order, count and a sum over all pairs, finds by value.
//
// Extraction: SMPI measures the computation between MPI calls and injects it unchanged. Find: a lookup of 0.3 us cannot
// be measured between two calls (timers cost as much, and 512 stores share this processor's caches). So the lookup runs
// for its answer, and its cost, measured separately over many lookups in one store, is injected instead.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cluster/gather/find.hpp"
#include "cluster/gather/gather.hpp"
#include "icecore/store.hpp"

namespace {

using namespace icecore;

struct arguments {
  std::string what;
  std::size_t pairs = 100'000;
  std::size_t queries = 1'000;
  std::size_t repetitions = 3;
  double node_slowdown = 1;  // for the injected lookups; smpi/host-speed slows everything else
  std::string folder = "/dev/shm/icecore-simulated";
  std::string methods =
      "extract,gather,opt_merge,opt_merge_2_threads,naive_merge_tournament,naive_merge_linear,distributed,stream";
};

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

arguments parse(int argc, char** argv) {
  arguments a;
  if (argc < 2) fail("usage: icecore_simulated extract|find [--pairs N] [--queries N] [--folder F] ...");
  a.what = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--pairs") {
      a.pairs = std::stoull(value);
    } else if (name == "--queries") {
      a.queries = std::stoull(value);
    } else if (name == "--repetitions") {
      a.repetitions = std::stoull(value);
    } else if (name == "--node-slowdown") {
      a.node_slowdown = std::stod(value);
    } else if (name == "--folder") {
      a.folder = value;
    } else if (name == "--methods") {
      a.methods = value;
    } else {
      fail("no such option: " + name);
    }
  }
  return a;
}

/// A bijection of 64-bit numbers that looks random: distinct keys without remembering them.
/// Source: the finaliser of splitmix64, Steele, Lea and Flood, OOPSLA 2014.
std::uint64_t mixed(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}
std::uint64_t value_of(std::uint64_t key) noexcept { return mixed(~key); }

std::string_view bytes_of(const std::uint64_t& number) noexcept {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

/// Advances the simulated time as if this many seconds were computed; does nothing under an MPI that is not simulated.
void inject_seconds([[maybe_unused]] double seconds) {
#ifdef SMPI_H
  smpi_execute_benched(seconds);
#endif
}

/// A rank's store of `pairs` random pairs: the keys numbered from rank * pairs on.
class partition {
 public:
  partition(const arguments& how, int rank)
      : pairs_(how.pairs),
        rank_(rank),
        path_(std::filesystem::path(how.folder) / (std::to_string(rank) + ".ice")),
        store_(path_, opening()) {
    for (std::uint64_t i = 0; i < pairs_; ++i) {
      const std::uint64_t key = key_at(i);
      const std::uint64_t value = value_of(key);
      store_.insert(bytes_of(key), bytes_of(value));
    }
    shown_ = store_.tag();
    std::filesystem::remove(path_);  // the memory is freed when the process ends in any way
  }

  [[nodiscard]] std::uint64_t key_at(std::uint64_t i) const noexcept {
    return mixed(static_cast<std::uint64_t>(rank_) * pairs_ + i);
  }

  /// Valid until the next call.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view key, version at) const {
    found_ = store_.find(key, at);
    return found_ ? std::optional(found_->bytes()) : std::nullopt;
  }
  [[nodiscard]] version shown() const noexcept { return shown_; }

  /// The whole partition as columns of 8-byte keys and values.
  [[nodiscard]] ranks::pairs extract() const {
    ranks::pairs own(ranks::extent{pairs_, 8, 8 * pairs_, 8, 8 * pairs_});
    const fixed_columns to{own.keys.bytes.data(), 8, own.values.bytes.data(), 8, pairs_};
    if (store_.at(shown_).extract(to, 1) != pairs_) fail("an extraction lacks pairs");
    return own;
  }

  /// The cost of a lookup when lookups follow one another.
  [[nodiscard]] double seconds_per_find() const {
    constexpr std::size_t lookups = 200'000;
    std::size_t found = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < lookups; ++i) {
      const std::uint64_t key = key_at(mixed(i) % pairs_);
      found += find(bytes_of(key), shown_).has_value() ? 1 : 0;
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (found != lookups) fail("a find did not find its key");
    return took.count() / lookups;
  }

 private:
  static options opening() {
    options o;
    o.durability = durability::none;
    o.huge_pages = false;  // the stores are small, and many of them share this machine's memory
    o.creation = creation::create_new;
    return o;
  }

  std::size_t pairs_;
  int rank_;
  std::filesystem::path path_;
  store store_;
  mutable std::optional<value> found_;  // what find() returned last
  version shown_ = 0;
};

/// Checks order, number and content of the result.
class checker {
 public:
  void add(const ranks::pairs_view& some) {
    for (std::size_t i = 0; i < some.count; ++i) {
      const std::string_view key = some.keys[i];
      std::uint64_t number = 0;
      std::uint64_t value = 0;
      key.copy(reinterpret_cast<char*>(&number), sizeof number);
      some.values[i].copy(reinterpret_cast<char*>(&value), sizeof value);
      if (value != value_of(number)) fail("a value does not belong to its key");
      if (ordered_ && count_ > 0 && !(last_ < key)) fail("keys are out of order");
      last_ = key;
      sum_ += number;
      ++count_;
    }
  }
  void unordered() noexcept { ordered_ = false; }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t sum() const noexcept { return sum_; }

 private:
  bool ordered_ = true;
  std::string last_;
  std::uint64_t sum_ = 0;
  std::uint64_t count_ = 0;
};

int own_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
int all_ranks() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

/// The median of the times that rank 0 measures from a barrier to the end of `work`; checks the results afterwards,
/// outside the timing. If there are several repetitions, one more runs first and is not counted: it takes the memory
/// that the others use again.
double median_seconds(std::size_t repetitions, const std::function<void()>& work, const std::function<void()>& check) {
  std::vector<double> all;
  for (std::size_t i = 0; i < repetitions + (repetitions > 1 ? 1 : 0); ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    work();
    all.push_back(MPI_Wtime() - begin);
    check();
  }
  if (repetitions > 1) all.erase(all.begin());
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

class extraction_run {
 public:
  extraction_run(const arguments& how, const partition& part) : how_(&how), part_(&part) {
    for (std::uint64_t i = 0; i < how.pairs; ++i) own_sum_ += part.key_at(i);
  }

  void run() {
    // Each includes the local extraction, as a snapshot of all ranks does.
    if (wants("extract"))
      time(
          "extract", how_->repetitions, [&] { static_cast<void>(part_->extract()); }, [] {});
    to_root("gather", how_->repetitions, false, [](const auto& own) { return ranks::gather(MPI_COMM_WORLD, own); });
    to_root("opt_merge", how_->repetitions, true,
            [](const auto& own) { return ranks::opt_merge(MPI_COMM_WORLD, own); });
    // SMPI counts the processor time of a rank's own thread: with two threads on this machine's two cores, this is the
    // time that both took in parallel. More threads than cores would not compete as those of a node do.
    to_root("opt_merge_2_threads", how_->repetitions, true, [](const auto& own) {
      ranks::gather_options two;
      two.threads = 2;
      return ranks::opt_merge(MPI_COMM_WORLD, own, two);
    });
    to_root("naive_merge_tournament", 1, true, [](const auto& own) { return ranks::naive_merge(MPI_COMM_WORLD, own); });
    to_root("naive_merge_linear", 1, true, [](const auto& own) {
      ranks::gather_options linear;
      linear.heads = ranks::heads::linear_scan;
      return ranks::naive_merge(MPI_COMM_WORLD, own, linear);
    });
    spread_over_ranks();
    streamed();
    if (own_rank() == 0) std::printf("}}\n");
  }

 private:
  [[nodiscard]] bool wants(const std::string& name) const {
    return ("," + how_->methods + ",").find("," + name + ",") != std::string::npos;
  }

  void time(const char* name, std::size_t repetitions, const std::function<void()>& work,
            const std::function<void()>& check) {
    const double seconds = median_seconds(repetitions, work, check);
    if (own_rank() != 0) return;
    if (first_) {
      std::printf("{\"what\": \"extract\", \"ranks\": %d, \"pairs_per_rank\": %zu, \"seconds\": {", all_ranks(),
                  how_->pairs);
    }
    std::printf("%s\"%s\": %.9f", first_ ? "" : ", ", name, seconds);
    std::fflush(stdout);
    first_ = false;
  }

  template <class Method>
  void to_root(const char* name, std::size_t repetitions, bool ordered, Method method) {
    if (!wants(name)) return;
    ranks::pairs all;
    time(
        name, repetitions,
        [&] {
          const ranks::pairs own = part_->extract();
          all = method(own.view());
        },
        [&] {
          checker found;
          if (!ordered) found.unordered();
          found.add(all.view());
          require_everything(found, all_ranks() * how_->pairs);
          all = ranks::pairs();
        });
  }

  void spread_over_ranks() {
    if (!wants("distributed")) return;
    ranks::pairs stretch;
    time(
        "distributed", 1,
        [&] {
          const ranks::pairs own = part_->extract();
          stretch = ranks::distributed(MPI_COMM_WORLD, own.view());
          MPI_Barrier(MPI_COMM_WORLD);  // the last rank's end ends the measurement
        },
        [&] {
          checker found;
          found.add(stretch.view());
          require_everything(found, 0);
        });
  }

  void streamed() {
    if (!wants("stream")) return;
    checker found;
    time(
        "stream", 1,
        [&] {
          const ranks::pairs own = part_->extract();
          ranks::stream(MPI_COMM_WORLD, own.view(), [&](const ranks::pairs_view& some) {
            last_piece_ = some.values[some.count - 1][0];  // the sink only looks at the data
            streamed_ += some.count;
          });
        },
        [&] {
          if (own_rank() == 0 && streamed_ != all_ranks() * how_->pairs) fail("the stream lacks pairs");
          streamed_ = 0;
        });
  }

  /// The results of all ranks together must be all pairs; rank 0 must have `at_root` of them unless that is 0.
  void require_everything(const checker& found, std::uint64_t at_root) const {
    const std::uint64_t mine[3] = {found.count(), found.sum(), own_sum_};
    std::uint64_t all[3] = {};
    MPI_Reduce(mine, all, 3, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (own_rank() != 0) return;
    if (all[0] != static_cast<std::uint64_t>(all_ranks()) * how_->pairs || all[1] != all[2]) fail("pairs are lost");
    if (at_root != 0 && found.count() != at_root) fail("the root lacks pairs");
  }

  const arguments* how_;
  const partition* part_;
  std::uint64_t own_sum_ = 0;
  std::uint64_t streamed_ = 0;
  char last_piece_ = 0;
  bool first_ = true;
};

/// Rank 0 looks up random keys of all ranks, one at a time.
class find_run {
 public:
  find_run(const arguments& how, const partition& part, double seconds_per_find)
      : how_(&how), part_(&part), seconds_per_find_(seconds_per_find) {}

  void run() {
    const double broadcast = rate([&] { ask_all(); }, [] {});
    const double routed = rate([&] { ask_owners(); },
                               [] {
                                 if (own_rank() == 0) ranks::end_routed_finds(MPI_COMM_WORLD);
                               });
    if (own_rank() != 0) return;
    std::printf(
        "{\"what\": \"find\", \"ranks\": %d, \"pairs_per_rank\": %zu, \"queries\": %zu, \"seconds_per_find\": %.9f, "
        "\"queries_per_second\": {\"broadcast\": %.1f, \"routed\": %.1f}}\n",
        all_ranks(), how_->pairs, how_->queries, seconds_per_find_, broadcast, routed);
  }

 private:
  [[nodiscard]] double rate(const std::function<void()>& queries, const std::function<void()>& end) const {
    return static_cast<double>(how_->queries) / median_seconds(1, queries, end);
  }

  [[nodiscard]] ranks::local_lookup lookup() const {
    return [this](std::string_view key, version at) {
      const auto found = part_->find(key, at);
      inject_seconds(seconds_per_find_);
      return found;
    };
  }

  [[nodiscard]] std::uint64_t number_of(std::size_t query) const {
    return mixed(query) % (static_cast<std::uint64_t>(all_ranks()) * how_->pairs);
  }

  void require(const std::optional<std::string>& answer, std::uint64_t key) const {
    const std::uint64_t value = value_of(key);
    if (!answer || *answer != bytes_of(value)) fail("a find did not give the key's value");
  }

  void ask_all() const {
    const ranks::local_lookup look = lookup();
    for (std::size_t q = 0; q < how_->queries; ++q) {
      const std::uint64_t key = mixed(number_of(q));
      const auto answer = ranks::broadcast_find(MPI_COMM_WORLD, {bytes_of(key), part_->shown()}, look);
      if (own_rank() == 0) require(answer, key);
    }
  }

  void ask_owners() const {
    const ranks::local_lookup look = lookup();
    if (own_rank() != 0) {
      ranks::serve_routed_finds(MPI_COMM_WORLD, look);
      return;
    }
    for (std::size_t q = 0; q < how_->queries; ++q) {
      const std::uint64_t number = number_of(q);
      const std::uint64_t key = mixed(number);
      const auto owner = static_cast<int>(number / how_->pairs);
      require(ranks::routed_find(MPI_COMM_WORLD, owner, {bytes_of(key), part_->shown()}, look), key);
    }
  }

  const arguments* how_;
  const partition* part_;
  double seconds_per_find_;
};

void run(const arguments& how) {
  if (own_rank() == 0) std::filesystem::create_directories(how.folder);
  MPI_Barrier(MPI_COMM_WORLD);
  // Never closed: the process ends immediately with all its stores, whose files have no names any more.
  const partition& part = *new partition(how, own_rank());
  if (how.what == "extract") {
    extraction_run(how, part).run();
  } else if (how.what == "find") {
    // One rank's store represents all, because they have the same size.
    double seconds = own_rank() == 0 ? part.seconds_per_find() * how.node_slowdown : 0;
    MPI_Bcast(&seconds, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    find_run(how, part, seconds).run();
  } else {
    fail("no such run: " + how.what);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    run(parse(argc, argv));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "icecore_simulated: %s\n", e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
