// A suite: workloads that run one after another on one store with one number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "../stores/map.hpp"
#include "../stores/store.hpp"
#include "../ycsb/phases.hpp"

namespace icecore::bench {

/// The time of one kind of operation, in nanoseconds.
struct latency_figure {
  static constexpr std::array percents = {50.0, 90.0, 99.0, 99.9, 99.99, 100.0};
  std::uint64_t count;  ///< number of timed operations; 0: none of this kind
  std::array<double, percents.size()> ns;
};

/// The result of one repetition of one workload.
struct figure {
  std::array<char, 32> workload;
  std::uint64_t n;    ///< size of the problem: keys, or records
  double operations;  ///< number of timed operations
  double seconds;
  double bytes_per_key;                                              ///< for the store's files; 0: not requested
  std::array<latency_figure, ycsb::operation_kind_count> latencies;  ///< by ycsb::operation_kind
  std::array<double, 10> per_tenth;  ///< operations in each tenth of a second; 0: not requested
};

/// The figures of one repetition, in memory that the measuring process shares with its parent.
struct figures {
  static constexpr std::size_t capacity = 32;
  std::array<figure, capacity> all;
  std::size_t count;

  figure& add(std::string_view workload, std::uint64_t n, double operations, double seconds);
};

/// One repetition.
struct run {
  const store_kind& kind;
  unsigned threads;
  std::filesystem::path folder;  ///< of this store alone
  figures& out;

  [[nodiscard]] std::unique_ptr<store> open(std::uint64_t records, std::size_t key_size, std::size_t value_size) const;
};

/// The work of one process, which is killed after it.
struct stage {
  std::function<void(const run&)> work;
  bool reopens = false;  ///< continues with what the stage before left: for stores that survive a kill
};

struct suite {
  std::string name;
  std::string what;      ///< one sentence for --help
  bool of_maps = false;  ///< for stores that are maps, not for those with versions
  /// Makes the inputs for a problem of size n, once for all stores, threads and repetitions.
  std::function<std::vector<stage>(std::uint64_t n)> prepare;

  [[nodiscard]] bool measures(const store_kind& kind) const noexcept {
    return of_maps ? static_cast<bool>(kind.open_map) : static_cast<bool>(kind.open);
  }
};

[[nodiscard]] suite paper_suite();
[[nodiscard]] suite depth_suite();
[[nodiscard]] suite paths_suite();
[[nodiscard]] suite values_suite();
[[nodiscard]] suite sequential_suite();
[[nodiscard]] suite mixed_suite();
[[nodiscard]] suite ycsb_suite(const ycsb::settings& chosen);
[[nodiscard]] suite recovery_suite(const ycsb::settings& chosen);

/// All suites, in the order of reports.
[[nodiscard]] std::vector<suite> all_suites(const ycsb::settings& chosen = {});

}  // namespace icecore::bench
