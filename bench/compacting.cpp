// A store that is packed while it is written: icecore_compacting [--help]
//
//   beside       inserts of one thread, with automatic compaction over without: the rate, and the time of the slowest
//                one in 1,000. In turns, in processes' own stores; each store has `--keys` keys before
//   growth       a store that grows from 1/10 of `--grown` random keys to all of them, with automatic compaction: bytes
//                written for each byte given; the same of RocksDB, by its own counters, its log of writes among them
//   overwritten  all of `--keys` keys written anew `--times` times, each time with a tag, of which the last two are
//                held, and packed after each `--packed-each` writes and each tag: the most that the file ever takes on
//                the device over what lives in it at that time, and behind the tags' compactions
//
// Keys of 8 bytes, values of --value-size, B+-tree, durability none; the files lie in --folder. What the stores hold in
// the end is checked.
#include <fmt/format.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "icecore/icecore.hpp"
#include "measure.hpp"
#ifdef ICECORE_BENCH_HAS_ROCKSDB
#include <rocksdb/db.h>
#include <rocksdb/statistics.h>

#include "stores/rocksdb_options.hpp"
#endif

namespace {

using namespace icecore;
using bench::bytes_of;
using bench::require;

struct measured {
  std::uint64_t keys = 1'000'000;
  std::uint64_t grown = 10'000'000;
  unsigned times = 100;
  std::uint64_t packed_each = 250'000;
  unsigned value_size = 8;
  unsigned repetitions = 5;
  std::filesystem::path folder = "/dev/shm";
};

std::string middle_and_ends(std::vector<double> values) {
  std::ranges::sort(values);
  return fmt::format("{:.2f} (least {:.2f}, most {:.2f})", bench::median(values), values.front(), values.back());
}

options writing(compaction_mode mode) {
  options opening;
  opening.durability = durability::none;
  opening.compaction = mode;
  return opening;
}

/// The value of each number: it begins with it.
class numbered_value {
 public:
  explicit numbered_value(const measured& how) : bytes_(how.value_size, 'v') {}
  [[nodiscard]] std::string_view of(std::uint64_t number) {
    bytes_.replace(0, sizeof number, bytes_of(number));
    return bytes_;
  }

 private:
  std::string bytes_;
};

void insert(const measured& how, store& s, std::uint64_t from, std::uint64_t end) {
  numbered_value value(how);
  for (std::uint64_t i = from; i < end; ++i) {
    const std::uint64_t key = bench::random_key(i);
    s.insert(bytes_of(key), value.of(i));
  }
}

/// That key i has the value of i + more.
void check_keys(const measured& how, const store& s, std::uint64_t end, std::uint64_t more = 0) {
  numbered_value value(how);
  for (std::uint64_t i = 0; i < end; i += 997) {
    const std::uint64_t key = bench::random_key(i);
    const auto found = s.find(bytes_of(key));
    require(found && *found == value.of(i + more), "the value of a key that was inserted");
  }
}

// ---- beside ----

struct pace_of_inserts {
  double a_second;
  double slow_us;  // 99.9 % are faster
  std::uint64_t compactions;
};

pace_of_inserts inserts_of_one_thread(const measured& how, compaction_mode mode) {
  const bench::scratch_file file(how.folder, "icecore-compacting");
  store s(file.path(), writing(compaction_mode::by_call));
  insert(how, s, 0, how.keys);
  static_cast<void>(s.compact());
  s.close();
  store measured_store(file.path(), writing(mode));
  const std::uint64_t count = 4 * how.keys;
  std::vector<float> us(count);
  numbered_value value(how);
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t number = how.keys + i;
    const std::uint64_t key = bench::random_key(number);
    const std::string_view bytes = value.of(number);
    const auto one = std::chrono::steady_clock::now();
    measured_store.insert(bytes_of(key), bytes);
    us[i] = static_cast<float>(bench::seconds_since(one) * 1e6);
  }
  const double seconds = bench::seconds_since(begin);
  const std::uint64_t compactions = measured_store.stats().compactions;
  check_keys(how, measured_store, how.keys + count);
  const auto place = us.begin() + static_cast<std::ptrdiff_t>(count - 1 - count / 1000);
  std::ranges::nth_element(us, place);
  return {static_cast<double>(count) / seconds, static_cast<double>(*place), compactions};
}

void measure_beside(const measured& how) {
  std::vector<double> rates;
  std::vector<double> slow;
  std::uint64_t compactions = 0;
  for (unsigned i = 0; i < how.repetitions; ++i) {
    std::optional<pace_of_inserts> with;
    std::optional<pace_of_inserts> without;
    for (const bool automatic : {i % 2 == 0, i % 2 != 0}) {
      (automatic ? with : without) =
          inserts_of_one_thread(how, automatic ? compaction_mode::automatic : compaction_mode::by_call);
    }
    rates.push_back(with->a_second / without->a_second);
    slow.push_back(with->slow_us / without->slow_us);
    compactions += with->compactions;
    fmt::print("  {:.2f} M/s with, {:.2f} without; 99.9 % within {:.1f} us with, {:.1f} without; {} compactions\n",
               with->a_second / 1e6, without->a_second / 1e6, with->slow_us, without->slow_us, with->compactions);
  }
  fmt::print("beside: inserts a second with automatic compaction over without {}; 99.9 % {}; {} compactions in all\n",
             middle_and_ends(rates), middle_and_ends(slow), compactions);
}

// ---- growth ----

#ifdef ICECORE_BENCH_HAS_ROCKSDB
void require(const rocksdb::Status& status) { require(status.ok(), status.ToString().c_str()); }

/// Bytes that RocksDB wrote for each byte of keys and values.
double rocksdb_growth(const measured& how) {
  const std::filesystem::path folder = how.folder / fmt::format("icecore-compacting-rocksdb-{}", ::getpid());
  std::filesystem::remove_all(folder);
  rocksdb::Options options = bench::rocksdb_options({});
  options.statistics = rocksdb::CreateDBStatistics();
  rocksdb::DB* opened = nullptr;
  require(rocksdb::DB::Open(options, folder.native(), &opened));
  const std::unique_ptr<rocksdb::DB> db(opened);
  numbered_value value(how);
  const auto put = [&](std::uint64_t from, std::uint64_t end) {
    const auto slice = [](std::string_view bytes) { return rocksdb::Slice(bytes.data(), bytes.size()); };
    for (std::uint64_t i = from; i < end; ++i) {
      const std::uint64_t key = bench::random_key(i);
      require(db->Put({}, slice(bytes_of(key)), slice(value.of(i))));
    }
    require(db->Flush({}));
    for (const char* const what : {"rocksdb.compaction-pending", "rocksdb.num-running-compactions"}) {
      for (std::uint64_t left = 1; left != 0 && db->GetIntProperty(what, &left) && left != 0;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    }
  };
  const auto written = [&] {
    const auto count = [&](rocksdb::Tickers which) { return options.statistics->getTickerCount(which); };
    return count(rocksdb::WAL_FILE_BYTES) + count(rocksdb::FLUSH_WRITE_BYTES) + count(rocksdb::COMPACT_WRITE_BYTES);
  };
  put(0, how.grown / 10);
  const std::uint64_t before = written();
  put(how.grown / 10, how.grown);
  const double given = static_cast<double>((how.grown - how.grown / 10) * (sizeof(std::uint64_t) + how.value_size));
  const double ratio = static_cast<double>(written() - before) / given;
  require(db->Close());
  std::filesystem::remove_all(folder);
  return ratio;
}
#endif

void measure_growth(const measured& how) {
  const bench::scratch_file file(how.folder, "icecore-compacting");
  {
    store s(file.path(), writing(compaction_mode::by_call));
    insert(how, s, 0, how.grown / 10);
    static_cast<void>(s.compact());
  }
  store s(file.path(), writing(compaction_mode::automatic));
  insert(how, s, how.grown / 10, how.grown);
  static_cast<void>(s.compact());  // all is packed, as RocksDB's is in sorted files
  const statistics now = s.stats();
  require(now.keys == how.grown, "the number of keys");
  check_keys(how, s, how.grown);
  fmt::print("growth: icecore wrote {:.2f} bytes for each byte given ({} compactions by themselves, {} strata)\n",
             now.write_amplification(), now.compactions, now.strata);
#ifdef ICECORE_BENCH_HAS_ROCKSDB
  fmt::print("growth: RocksDB wrote {:.2f} bytes for each byte given\n", rocksdb_growth(how));
#endif
}

// ---- overwritten ----

std::uint64_t bytes_on_device(const std::filesystem::path& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 ? static_cast<std::uint64_t>(about.st_blocks) * 512 : 0;
}

/// The greatest size of a store's file over what lives in it at that time, as a thread sees it that looks every 10 ms.
class greatest_size {
 public:
  greatest_size(const store& of, std::filesystem::path path)
      : of_(&of), path_(std::move(path)), looks_([this] {
          while (!ends_.load()) {
            const std::uint64_t taken = bytes_on_device(path_);  // first: a compaction may end before the next line
            const auto ratio = static_cast<double>(taken) / static_cast<double>(of_->stats().live_bytes);
            if (begun_.load()) most_ = std::max(most_, ratio);
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          }
        }) {}
  ~greatest_size() { end(); }
  greatest_size(const greatest_size&) = delete;
  greatest_size& operator=(const greatest_size&) = delete;
  void begin() { begun_.store(true); }
  double end() {
    ends_.store(true);
    if (looks_.joinable()) looks_.join();
    return most_;
  }

 private:
  const store* of_;
  std::filesystem::path path_;
  double most_ = 0;  // the thread's, until it ends
  std::atomic<bool> begun_{false};
  std::atomic<bool> ends_{false};
  std::thread looks_;
};

void measure_overwritten(const measured& how) {
  const bench::scratch_file file(how.folder, "icecore-compacting");
  store s(file.path(), writing(compaction_mode::by_call));
  s.set_retention({.newest = 1});
  greatest_size size(s, file.path());
  double most_at_rest = 0;
  numbered_value value(how);
  const auto hold_of = [](unsigned time) { return fmt::format("time {}", time); };
  for (unsigned time = 0; time < how.times; ++time) {
    for (std::uint64_t i = 0; i < how.keys; ++i) {
      const std::uint64_t key = bench::random_key(i);
      s.insert(bytes_of(key), value.of(i + time));
      if ((i + 1) % how.packed_each == 0 && i + 1 < how.keys) static_cast<void>(s.compact());
    }
    s.hold_version(hold_of(time), s.tag(hold_of(time)));
    if (time >= 2) s.release_version(hold_of(time - 2));
    static_cast<void>(s.compact());
    if (time == 0) continue;  // from then on two versions live
    size.begin();
    const auto live = static_cast<double>(s.stats().live_bytes);
    most_at_rest = std::max(most_at_rest, static_cast<double>(bytes_on_device(file.path())) / live);
  }
  check_keys(how, s, how.keys, how.times - 1);
  const snapshot held = s.at(hold_of(how.times - 2));
  for (std::uint64_t i = 0; i < how.keys; i += 997) {
    const std::uint64_t key = bench::random_key(i);
    const auto found = held.find(bytes_of(key));
    require(found && *found == value.of(i + how.times - 2), "the value of a key in a version that is held");
  }
  fmt::print("overwritten: the file took at most {:.2f} times what lived in it; {:.2f} behind a tag's compaction\n",
             size.end(), most_at_rest);
}

}  // namespace

int main(int count, char** arguments) {
  measured how;
  std::vector<std::string> only = {"beside", "growth", "overwritten"};
  CLI::App program("A store that is packed while it is written", "icecore_compacting");
  program.add_option("--keys", how.keys, "of beside and overwritten")->check(CLI::Range(1'000, 1'000'000'000));
  program.add_option("--grown", how.grown, "keys in the end")->check(CLI::Range(1'000, 1'000'000'000));
  program.add_option("--times", how.times, "that all keys are written anew")->check(CLI::Range(3, 100'000));
  program.add_option("--packed-each", how.packed_each, "writes of overwritten between compactions")
      ->check(CLI::Range(std::uint64_t{1'000}, std::uint64_t{1'000'000'000}));
  program.add_option("--value-size", how.value_size, "bytes of a value")->check(CLI::Range(8, 1 << 20));
  program.add_option("--repetitions", how.repetitions, "of beside")->check(CLI::Range(1, 100));
  program.add_option("--folder", how.folder, "where the files lie")->check(CLI::ExistingDirectory);
  program.add_option("--only", only, "some of: beside growth overwritten")
      ->check(CLI::IsMember({"beside", "growth", "overwritten"}))
      ->delimiter(',');
  CLI11_PARSE(program, count, arguments);
  for (const std::string& each : only) {
    if (each == "beside") measure_beside(how);
    if (each == "growth") measure_growth(how);
    if (each == "overwritten") measure_overwritten(how);
    std::fflush(stdout);
  }
  return 0;
}
