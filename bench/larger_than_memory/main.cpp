// icecore_larger_than_memory: finds and scans where the data is several times as large as memory.
//
// Each store gets the same pairs: random keys of 8 bytes and values of 100 (--value-size). icecore's is compacted,
// RocksDB's, too, and LMDB's is filled in the order of keys, so that its pages are full. Each repetition of a store
// runs in a process of its own, whose memory the kernel limits (--limit): what it allocates, and what is cached of its
// files, which is nothing at first. All stores take turns. Of LMDB and of RocksDB there are two configurations, one for
// reads that the kernel may extend and one for reads as they are asked for; icecore has none.
//
//   find        random keys, by one thread and by two, after as much time that is not measured
//   find_many   the same, 256 keys a call
//   short scan  up to 100 pairs from a random key on, copied from a cursor
//   scan        all pairs in the order of keys, copied from a cursor, by one thread
//   for_each    all pairs in the order of keys, where they lie
//
// Every value is compared with the one that was written. Prints the medians with the least and the greatest, and how
// many times as fast icecore is as the faster configuration of each other store, within repetitions.
#include <fmt/format.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <fstream>
#include <map>
#include <numeric>

#include "../isolated.hpp"
#include "../report.hpp"
#include "../stores/kinds.hpp"
#include "../stores/map.hpp"
#include "../timed.hpp"
#include "icecore/icecore.hpp"
#include "memory_limit.hpp"

namespace icecore::bench {
namespace {

constexpr std::size_t key_size = 8;
constexpr std::size_t batch = 256;
constexpr unsigned limit_s = 3600;

struct plan {
  std::uint64_t records = 10'000'000;
  std::size_t value_size = 100;
  std::uint64_t limit_mib = 0;  // a quarter of the data
  double seconds = 3;
  unsigned repetitions = 5;
  std::string folder = "/var/tmp";
  std::string only;
  std::string json_file;
  bool compress = false;

  [[nodiscard]] std::uint64_t data_bytes() const { return records * (key_size + value_size); }
  [[nodiscard]] std::uint64_t limit() const { return limit_mib != 0 ? limit_mib << 20 : data_bytes() / 4; }
};

/// The pairs: key i is random, and its value tells i.
class pairs {
 public:
  explicit pairs(const plan& of) : value_(of.value_size, 'v') {}
  [[nodiscard]] std::string_view key(std::uint64_t i) {
    const std::uint64_t number = __builtin_bswap64(random_key(i));
    std::memcpy(key_.data(), &number, sizeof number);
    return {key_.data(), key_.size()};
  }
  [[nodiscard]] std::string_view value(std::uint64_t i) {
    // half of it does not compress
    for (std::size_t at = 0, part = 0; at + 8 <= value_.size() / 2; at += 8, ++part) {
      const std::uint64_t number = part == 0 ? i : random_key(i + part * 0x10001);
      std::memcpy(&value_[at], &number, sizeof number);
    }
    return value_;
  }
  void check(std::uint64_t i, const std::optional<std::string_view>& found) {
    if (!found || *found != value(i)) throw std::runtime_error(fmt::format("the value of key {} is not as written", i));
  }

 private:
  std::array<char, key_size> key_{};
  std::string value_;
};

/// What is measured of one store.
class subject {
 public:
  virtual ~subject() = default;
  virtual std::unique_ptr<map_session> new_session() = 0;
  /// Only icecore.
  virtual void find_many(std::span<const std::string_view>, std::span<std::optional<std::string_view>>) {}
  virtual std::uint64_t for_each() { return 0; }
};

class icecore_subject final : public subject {
 public:
  explicit icecore_subject(const std::filesystem::path& path) : store_(path, reading()) {}

  static void load(const std::filesystem::path& path, const plan& of) {
    options how;
    how.durability = durability::none;
    {
      icecore::store made(path, how);
      pairs all(of);
      for (std::uint64_t i = 0; i < of.records; ++i) made.insert(all.key(i), all.value(i));
      made.tag();
    }
    compaction_options packing;
    if (of.compress) packing.compression = compression::zstd;
    static_cast<void>(compact(path, how, packing));
  }
  std::unique_ptr<map_session> new_session() override { return std::make_unique<session>(store_); }
  void find_many(std::span<const std::string_view> keys, std::span<std::optional<std::string_view>> out) override {
    static thread_local pin holds;
    holds = store_.find_many(keys, store_.clock() - 1, out);
  }
  std::uint64_t for_each() override {
    std::uint64_t count = 0;
    store_.latest().for_each([&](const item&) { ++count; }, 1);
    return count;
  }

 private:
  class session final : public map_session {
   public:
    explicit session(icecore::store& of) : store_(of), at_(of.latest()) {}
    void insert(std::string_view, std::string_view) override { throw std::logic_error("icecore: nothing is written"); }
    void update(std::string_view, std::string_view) override { throw std::logic_error("icecore: nothing is written"); }
    std::optional<std::string_view> read(std::string_view key) override {
      value_ = store_.find(key);
      return value_ ? std::optional<std::string_view>(*value_) : std::nullopt;
    }
    void scan(std::string_view from, std::size_t count, pair_columns& out) override {
      cursor at = at_.cursor();
      at.seek(from);
      for (; at.valid() && out.count() < count; at.next()) out.add(at->key, at->value);
    }

   private:
    icecore::store& store_;
    snapshot at_;
    std::optional<value> value_;
  };

  static options reading() {
    options how;
    how.access = access::read_only;
    return how;
  }
  icecore::store store_;
};

class map_subject final : public subject {
 public:
  explicit map_subject(std::unique_ptr<bench::map> opened) : map_(std::move(opened)) {}
  std::unique_ptr<map_session> new_session() override { return map_->new_session(); }

 private:
  std::unique_ptr<bench::map> map_;
};

/// A store, or one of its configurations.
struct configuration {
  std::string name;
  std::string store;  ///< configurations of one store read one folder
  std::string kind;   ///< of stores/; empty: icecore
  bool reads_ahead = true;
};

const std::vector<configuration>& all_configurations() {
  static const std::vector<configuration> all = {
      {"icecore", "icecore", "", true},
      {"LMDB", "LMDB", "LMDB-nosync", true},
      {"LMDB, MDB_NORDAHEAD", "LMDB", "LMDB-nosync", false},
      {"RocksDB", "RocksDB", "RocksDB-nosync", true},
      {"RocksDB, direct reads", "RocksDB", "RocksDB-nosync", false},
  };
  return all;
}

std::unique_ptr<subject> open(const configuration& which, const std::filesystem::path& folder, const plan& of,
                              bool limited) {
  if (which.kind.empty()) return std::make_unique<icecore_subject>(folder / "store.ice");
  return std::make_unique<map_subject>(kind_of_name(which.kind)
                                           ->open_map({.folder = folder,
                                                       .threads = 2,
                                                       .records = of.records,
                                                       .keys = of.records,
                                                       .key_size = key_size,
                                                       .value_size = of.value_size,
                                                       .memory_bytes = limited ? of.limit() : 0,
                                                       .reads_ahead = which.reads_ahead}));
}

void load(const configuration& which, const std::filesystem::path& folder, const plan& of) {
  std::filesystem::create_directories(folder);
  if (which.kind.empty()) return icecore_subject::load(folder / "store.ice", of);
  std::vector<std::uint32_t> order(of.records);
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [](std::uint32_t i) { return random_key(i); });
  const auto made = kind_of_name(which.kind)
                        ->open_map({.folder = folder,
                                    .threads = 2,
                                    .records = of.records,
                                    .keys = of.records,
                                    .key_size = key_size,
                                    .value_size = of.value_size});
  pairs all(of);
  const auto own = made->new_session();
  for (const std::uint32_t i : order) own->insert(all.key(i), all.value(i));
  made->settle();
}

std::uint64_t bytes_of(const std::filesystem::path& folder) {
  std::uint64_t sum = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    struct stat about {};
    if (entry.is_regular_file() && stat(entry.path().c_str(), &about) == 0) {
      sum += static_cast<std::uint64_t>(about.st_blocks) * 512;
    }
  }
  return sum;
}

// ---- What is measured ----

constexpr std::array workloads = {
    "find, T = 1",       "find, T = 2", "find_many, T = 1", "find_many, T = 2", "short scan, T = 1",
    "short scan, T = 2", "scan",        "for_each"};
using rates = std::array<double, workloads.size()>;

/// Calls `step(session, random, all)`, which does some finds and returns how many, until `seconds` are over; the rate.
template <class Step>
double rate_of(subject& of, const plan& how, unsigned threads, std::uint64_t seed, const Step& step) {
  std::atomic<std::uint64_t> done{0};
  const auto run = [&](double seconds, std::uint64_t which) {
    done = 0;
    return timed_with_sessions(
        threads, [&] { return of.new_session(); },
        [&](map_session& own, unsigned thread) {
          const auto begin = std::chrono::steady_clock::now();
          random_numbers random(which + 1000 * thread);
          pairs all(how);
          std::uint64_t count = 0;
          while (seconds_since(begin) < seconds) count += step(own, random, all);
          done += count;
        });
  };
  run(how.seconds, 2 * seed);  // the memory is filled with what the store reads
  const double taken = run(how.seconds, 2 * seed + 1);
  return static_cast<double>(done.load()) / taken;
}

double find_rate(subject& of, const plan& how, unsigned threads, std::uint64_t seed) {
  return rate_of(of, how, threads, seed, [&](map_session& own, random_numbers& random, pairs& all) {
    constexpr std::uint64_t finds = 64;
    for (std::uint64_t n = 0; n < finds; ++n) {
      const std::uint64_t i = random.below(how.records);
      all.check(i, own.read(all.key(i)));
    }
    return finds;
  });
}

double find_many_rate(subject& of, const plan& how, unsigned threads, std::uint64_t seed) {
  return rate_of(of, how, threads, seed, [&](map_session&, random_numbers& random, pairs& all) {
    std::array<std::uint64_t, batch> chosen;
    std::array<std::array<char, key_size>, batch> bytes;
    std::array<std::string_view, batch> keys;
    std::array<std::optional<std::string_view>, batch> found;
    for (std::size_t n = 0; n < batch; ++n) {
      chosen[n] = random.below(how.records);
      std::ranges::copy(all.key(chosen[n]), bytes[n].begin());
      keys[n] = {bytes[n].data(), key_size};
    }
    of.find_many(keys, found);
    for (std::size_t n = 0; n < batch; ++n) all.check(chosen[n], found[n]);
    return batch;
  });
}

/// Scans a second, of up to 100 pairs each, as YCSB's workload E has them; pairs are copied.
double short_scan_rate(subject& of, const plan& how, unsigned threads, std::uint64_t seed) {
  constexpr std::size_t most = 100;
  return rate_of(of, how, threads, seed, [&](map_session& own, random_numbers& random, pairs& all) {
    constexpr std::uint64_t scans = 16;
    static thread_local pair_columns some(most, key_size, how.value_size);
    for (std::uint64_t n = 0; n < scans; ++n) {
      const std::uint64_t i = random.below(how.records);
      some.clear();
      own.scan(all.key(i), 1 + random.below(most), some);
      if (some.count() == 0 || some.key(0) != all.key(i)) throw std::runtime_error("a short scan begins elsewhere");
      all.check(i, some.value(0));
    }
    return scans;
  });
}

/// Pairs a second.
double scan_rate(subject& of, const plan& how) {
  constexpr std::size_t chunk = 100'000;
  const auto own = of.new_session();
  pair_columns some(chunk, key_size, how.value_size);
  pairs all(how);
  std::string from(1, '\0');  // not after any key
  std::uint64_t count = 0;
  const auto begin = std::chrono::steady_clock::now();
  do {
    some.clear();
    own->scan(from, chunk, some);
    if (some.count() == 0) break;
    for (std::size_t n = 0; n < some.count(); ++n) {
      if (n > 0 && some.key(n) <= some.key(n - 1)) throw std::runtime_error("a scan out of order");
    }
    std::uint64_t number = 0;  // the last one's value tells which it is
    std::memcpy(&number, some.value(some.count() - 1).data(), sizeof number);
    all.check(number, some.value(some.count() - 1));
    if (all.key(number) != some.key(some.count() - 1)) throw std::runtime_error("a value of another key");
    count += some.count();
    from = some.key(some.count() - 1);
    from.push_back('\0');
  } while (some.count() == chunk);
  const double taken = seconds_since(begin);
  if (count != how.records) throw std::runtime_error(fmt::format("a scan saw {} pairs", count));
  return static_cast<double>(count) / taken;
}

void measure(const configuration& which, const std::filesystem::path& folder, const plan& how, std::uint64_t seed,
             rates& out) {
  const auto of = open(which, folder, how, true);
  const bool is_icecore = which.kind.empty();
  out[0] = find_rate(*of, how, 1, seed);
  out[1] = find_rate(*of, how, 2, seed + 1);
  if (is_icecore) {
    out[2] = find_many_rate(*of, how, 1, seed + 2);
    out[3] = find_many_rate(*of, how, 2, seed + 3);
  }
  out[4] = short_scan_rate(*of, how, 1, seed + 4);
  out[5] = short_scan_rate(*of, how, 2, seed + 5);
  out[6] = scan_rate(*of, how);
  if (!is_icecore) return;
  const auto begin = std::chrono::steady_clock::now();
  if (of->for_each() != how.records) throw std::runtime_error("for_each saw another number of pairs");
  out[7] = static_cast<double>(how.records) / seconds_since(begin);
}

/// A folder that is removed with all that is in it.
class scratch_folder {
 public:
  explicit scratch_folder(std::filesystem::path path) : path_(std::move(path)) {
    std::filesystem::create_directories(path_);
  }
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

// ---- The report ----

struct measured {
  configuration which;
  std::uint64_t bytes;
  std::vector<rates> repetitions;
};

std::string spread(const std::vector<double>& of, int digits) {
  const auto [least, greatest] = std::ranges::minmax(of);
  return fmt::format("{:.{}f} ({:.{}f} to {:.{}f})", median(of), digits, least, digits, greatest, digits);
}

std::vector<double> column(const measured& of, std::size_t workload) {
  std::vector<double> found;
  for (const rates& each : of.repetitions) found.push_back(each[workload]);
  return found;
}

/// The workload of the others that one of icecore's is compared with.
constexpr std::array<std::size_t, workloads.size()> compared_with = {0, 1, 0, 1, 4, 5, 6, 6};

json report(const std::vector<measured>& all) {
  json rows = json::array();
  table t({"", "store", "thousands a second", "icecore is times as fast"});
  for (std::size_t w = 0; w < workloads.size(); ++w) {
    const std::size_t theirs = compared_with[w];
    for (const measured& one : all) {
      const bool is_icecore = one.which.kind.empty();
      if (!is_icecore && w != theirs && !all.front().which.kind.empty()) continue;
      const std::vector<double> rate = column(one, is_icecore ? w : theirs);
      if (rate.empty() || (rate.front() == 0)) continue;
      std::vector<double> thousands;
      for (const double r : rate) thousands.push_back(r / 1e3);
      std::string ratio;
      json row = {{"workload", workloads[w]}, {"store", one.which.name}, {"bytes", one.bytes}, {"rates", rate}};
      if (!is_icecore && all.front().which.kind.empty()) {
        const std::vector<double> own = column(all.front(), w);
        std::vector<double> ratios;
        for (std::size_t i = 0; i < own.size(); ++i) ratios.push_back(own[i] / rate[i]);
        ratio = spread(ratios, 2);
        row["icecore_times_as_fast"] = ratios;
      }
      t.add({workloads[w], one.which.name, spread(thousands, 1), ratio});
      rows.push_back(std::move(row));
    }
  }
  t.print();
  return rows;
}

int run(const plan& how) {
  const memory_limit limit(how.limit());
  const scratch_folder scratch(std::filesystem::path(how.folder) /
                               fmt::format("icecore-larger-than-memory-{}", getpid()));
  const std::filesystem::path& folder = scratch.path();
  std::vector<measured> all;
  for (const configuration& each : all_configurations()) {
    const bool wanted = how.only.empty() || ("," + how.only + ",").find("," + each.store + ",") != std::string::npos;
    if (wanted && (each.kind.empty() || kind_of_name(each.kind) != nullptr)) all.push_back({each, 0, {}});
  }
  fmt::print("{} pairs of {} bytes: {:.0f} MB; memory of each process: {:.0f} MB ({}); {}\n", how.records,
             key_size + how.value_size, static_cast<double>(how.data_bytes()) / 1e6,
             static_cast<double>(how.limit()) / 1e6, limit.kind(), how.folder);
  for (measured& one : all) {
    const std::filesystem::path at = folder / one.which.store;
    if (!std::filesystem::exists(at)) {
      tell("filling " + one.which.store);
      run_and_kill(limit_s, [&] { load(one.which, at, how); });
      forget_cached(at);
    }
    one.bytes = bytes_of(at);
    fmt::print("{}: {:.0f} MB of files\n", one.which.name, static_cast<double>(one.bytes) / 1e6);
  }
  const shared_array<rates> result(1);
  for (unsigned r = 0; r < how.repetitions; ++r) {
    for (std::size_t turn = 0; turn < all.size(); ++turn) {
      measured& one = all[(turn + r) % all.size()];
      const std::filesystem::path at = folder / one.which.store;
      forget_cached(at);
      result[0] = {};
      tell(fmt::format("repetition {} of {}: {}", r + 1, how.repetitions, one.which.name));
      try {
        run_and_kill(limit_s, [&] {
          limit.enter();
          measure(one.which, at, how, 100 * r + 1, result[0]);
        });
      } catch (const std::exception& e) {
        throw std::runtime_error(fmt::format("{}: {} (the kernel kills a store that needs more memory than --limit)",
                                             one.which.name, e.what()));
      }
      one.repetitions.push_back(result[0]);
    }
  }
  const json rows = report(all);
  if (how.json_file.empty()) return 0;
  json about = machine();
  about["folder"] = how.folder;
  about["mount"] = mount_of(how.folder);
  std::ofstream(how.json_file) << json{{"icecore", library_version()},
                                       {"machine", about},
                                       {"records", how.records},
                                       {"value_size", how.value_size},
                                       {"limit_bytes", how.limit()},
                                       {"limited_by", limit.kind()},
                                       {"rows", rows}}
                                      .dump(1)
                               << '\n';
  return 0;
}

}  // namespace
}  // namespace icecore::bench

int main(int count, char** arguments) {
  icecore::bench::plan how;
  CLI::App program("Finds and scans where the data is several times as large as memory", "icecore_larger_than_memory");
  program.add_option("--records", how.records, "pairs")->check(CLI::Range(1'000, 2'000'000'000));
  program.add_option("--value-size", how.value_size, "bytes of a value")->check(CLI::Range(16, 1 << 20));
  program.add_option("--limit", how.limit_mib, "MiB of memory for each process; a quarter of the data if not given")
      ->check(CLI::Range(16, 1 << 20));
  program.add_option("--seconds", how.seconds, "of each measurement of finds, and before it")
      ->check(CLI::Range(0.01, 600.0));
  program.add_option("--repetitions", how.repetitions, "of each store")->check(CLI::Range(1, 100));
  program.add_option("--folder", how.folder, "where the stores lie: on the device that is to be measured");
  program.add_option("--only", how.only, "stores: icecore,LMDB,RocksDB");
  program.add_flag("--compress", how.compress, "icecore's packed records are compressed");
  program.add_option("--json", how.json_file, "write all rates to this file");
  CLI11_PARSE(program, count, arguments);
  try {
    return icecore::bench::run(how);
  } catch (const std::exception& failed) {
    fmt::print(stderr, "icecore_larger_than_memory: {}\n", failed.what());
    return 1;
  }
}
