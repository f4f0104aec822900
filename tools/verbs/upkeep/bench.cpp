// bench: measures on this machine the operations that the design sets budgets for.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <thread>

#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/progress.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

struct bench_arguments {
  std::string path;
  std::uint64_t keys = 1'000'000;
  unsigned threads = 0;
  std::uint64_t seed = 1;
  write_arguments write;
  cli::format format = cli::format::table;
};

struct result {
  std::string name;
  double seconds;
  std::uint64_t operations;  ///< 0: a single operation, shown in seconds
};

/// A number as a key or value of eight bytes.
class bytes8 {
 public:
  explicit bytes8(std::uint64_t number) {
    for (std::size_t i = 0; i < sizeof bytes_; ++i) bytes_[i] = static_cast<char>(number >> (56 - 8 * i));
  }
  [[nodiscard]] std::string_view view() const noexcept { return {bytes_, sizeof bytes_}; }

 private:
  char bytes_[8];
};

class benchmark {
 public:
  benchmark(const bench_arguments& arguments, std::filesystem::path path)
      : arguments_(&arguments), path_(std::move(path)), keys_(arguments.keys) {
    std::mt19937_64 random(arguments.seed);
    for (std::uint64_t& key : keys_) key = random();
    store_ = std::make_unique<store>(open_to_write(path_.string(), arguments.write, creation::create_new));
    durability_ = store_->durability();
  }

  std::vector<result> run() {
    inserts();
    finds();
    finds_of_many();
    snapshots();
    removes();
    reopening();
    return std::move(results_);
  }

  [[nodiscard]] const durability_info& durability() const noexcept { return durability_; }

 private:
  using share = std::function<void(std::size_t first, std::size_t last, unsigned thread)>;

  /// Runs `work` on each thread's share of the keys and records the time of the slowest thread.
  void measure(const std::string& name, std::uint64_t operations, const share& work) {
    if (stderr_is_terminal()) fmt::print(stderr, "\r\x1b[K{} ...", name);
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> failures(arguments_->threads);
    for (unsigned t = 0; t < arguments_->threads; ++t) {
      threads.emplace_back([&, t] {
        try {
          work(keys_.size() * t / arguments_->threads, keys_.size() * (t + 1) / arguments_->threads, t);
        } catch (...) {
          failures[t] = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (stderr_is_terminal()) fmt::print(stderr, "\r\x1b[K");
    for (const auto& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    results_.push_back({name, elapsed.count(), operations});
  }

  void inserts() {
    measure("insert, a tag after each", keys_.size(), [this](std::size_t first, std::size_t last, unsigned) {
      for (std::size_t i = first; i < last; ++i) {
        (void)store_->insert(bytes8(keys_[i]).view(), bytes8(i).view());
        (void)store_->tag();
      }
    });
  }

  void removes() {
    measure("remove, a tag after each", keys_.size(), [this](std::size_t first, std::size_t last, unsigned) {
      for (std::size_t i = first; i < last; ++i) {
        (void)store_->remove(bytes8(keys_[i]).view());
        (void)store_->tag();
      }
    });
  }

  void finds() {
    const version closed = store_->latest().version();
    measure("find at a random version", keys_.size(), [this, closed](std::size_t first, std::size_t last, unsigned t) {
      std::mt19937_64 random(arguments_->seed + 100 + t);
      std::size_t found = 0;
      for (std::size_t i = first; i < last; ++i) {
        const std::uint64_t key = keys_[random() % keys_.size()];
        found += store_->find(bytes8(key).view(), random() % (closed + 1)).has_value() ? 1 : 0;
      }
      check(found <= last - first);
    });
  }

  void finds_of_many() {
    static constexpr std::size_t group = 256;
    const version closed = store_->latest().version();
    measure("find_many of 256", keys_.size(), [this, closed](std::size_t first, std::size_t last, unsigned t) {
      std::mt19937_64 random(arguments_->seed + 200 + t);
      std::vector<bytes8> keys(group, bytes8(0));
      std::vector<std::string_view> views(group);
      std::vector<version> at(group);
      std::vector<std::optional<std::string_view>> values(group);
      for (std::size_t i = first; i < last; i += group) {
        const std::size_t count = std::min(group, last - i);
        for (std::size_t j = 0; j < count; ++j) {
          keys[j] = bytes8(keys_[random() % keys_.size()]);
          views[j] = keys[j].view();
          at[j] = random() % (closed + 1);
        }
        static_cast<void>(store_->find_many(std::span(views).first(count), std::span(at).first(count),
                                            std::span(values).first(count)));
      }
    });
  }

  void snapshots() {
    const snapshot all = store_->latest();
    const std::size_t expected = all.size();
    measure("snapshot of all keys, one each thread", 0, [&all, expected](std::size_t, std::size_t, unsigned) {
      std::vector<std::uint64_t> keys(expected);
      std::vector<std::uint64_t> values(expected);
      check(all.extract(fixed_columns{keys.data(), 8, values.data(), 8, expected}) == expected);
    });
  }

  void reopening() {
    store_->close();
    const auto start = std::chrono::steady_clock::now();
    store_ = std::make_unique<store>(open_to_write(path_.string(), arguments_->write, creation::open_existing));
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    results_.push_back({"reopen", elapsed.count(), 0});
    store_->close();
  }

  static void check(bool holds) {
    if (!holds) throw std::logic_error("bench: the store gave a wrong answer");
  }

  const bench_arguments* arguments_;
  std::filesystem::path path_;
  std::vector<std::uint64_t> keys_;
  std::unique_ptr<store> store_;
  durability_info durability_{};
  std::vector<result> results_;
};

std::string_view name_of(durability mode) {
  return mode == durability::none ? "none" : mode == durability::tag ? "tag" : "operation";
}

void report(const bench_arguments& a, const benchmark& b, const std::vector<result>& results) {
  const durability_info& d = b.durability();
  if (a.format == cli::format::json) {
    for (const result& r : results) {
      json_object line;
      line.bytes("operation", r.name).add("keys", a.keys).add("threads", a.threads);
      line.bytes("durability", name_of(d.mode)).add("emulated", d.emulated).add("seconds", r.seconds);
      if (r.operations != 0) line.add("operations_per_second", static_cast<double>(r.operations) / r.seconds);
      out().line(line.text());
    }
    return;
  }
  out().line(fmt::format("{} keys and values of 8 bytes, {} threads, durability {}{}, {} ({})", grouped(a.keys),
                         a.threads, name_of(d.mode), d.emulated ? " (emulated)" : "", d.flush_method, d.filesystem));
  table rows({"operation", ">seconds", ">M/s"});
  for (const result& r : results) {
    rows.row({r.name, fmt::format("{:.3f}", r.seconds),
              r.operations == 0 ? "" : fmt::format("{:.2f}", static_cast<double>(r.operations) / r.seconds / 1e6)});
  }
  rows.print(out());
}

exit_code bench(bench_arguments a) {
  if (a.keys == 0) throw error(errc::invalid_argument, "bench: --keys is 0; at least one is needed");
  if (a.threads == 0) a.threads = std::max(1U, std::thread::hardware_concurrency());
  struct remover {
    std::filesystem::path path;
    ~remover() {
      std::error_code ignored;
      if (!path.empty()) std::filesystem::remove(path, ignored);
    }
  } cleanup;
  std::filesystem::path path = a.path;
  if (path.empty()) {
    path = std::filesystem::temp_directory_path() / fmt::format("icecore-bench-{}.ice", ::getpid());
    cleanup.path = path;
  }
  benchmark b(a, path);
  const auto results = b.run();
  report(a, b, results);
  return exit_code::ok;
}

}  // namespace

void add_bench_verb(command_line& line) {
  const auto a = std::make_shared<bench_arguments>();
  verb verb = line.add_verb(
      "bench", "Measure a store on this machine: insert, remove, find, snapshot, reopen",
      "  icecore bench\n"
      "  icecore bench --path /dev/shm/bench.ice --keys 2000000 --threads 2\n"
      "  icecore bench --path /mnt/pmem0/bench.ice --durability operation -o json\n"
      "Random keys and values of 8 bytes. Without --path the store is a temporary file, removed at the end.");
  verb.add_option("--path", a->path, "Where to make the store; it is kept")
      .type_name("FILE")
      .completes(value_kind::file);
  verb.add_option("--keys", a->keys, "How many keys (default: 1,000,000)").type_name("N");
  verb.add_option("--threads", a->threads, "How many threads (default: all cores)").type_name("N");
  verb.add_option("--seed", a->seed, "The seed that chooses the keys (default: 1)").type_name("N");
  verb.add_writing(a->write);
  verb.add_format(a->format);
  verb.runs([a] { return bench(*a); });
}

}  // namespace icecore::cli
