// A suite: workloads that run one after another on one store with one number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "../memory_touch.hpp"
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
  std::uint64_t n;       ///< size of the problem: keys, or records
  double operations;     ///< number of timed operations; of a figure with a unit, how many of it
  double seconds;        ///< of a figure with a unit: 1
  double bytes_per_key;  ///< for the store's files; 0: not requested
  std::array<latency_figure, ycsb::operation_kind_count> latencies;  ///< by ycsb::operation_kind
  std::array<double, 10> per_tenth;  ///< operations in each tenth of a second; 0: not requested
  std::array<char, 16> unit;         ///< empty: operations a second
};

/// The figures of one repetition, in memory that the measuring process shares with its parent.
struct figures {
  static constexpr std::size_t capacity = 64;
  std::array<figure, capacity> all;
  std::size_t count;

  figure& add(std::string_view workload, std::uint64_t n, double operations, double seconds);
  /// A figure that is no rate: a ratio, nanoseconds, bytes.
  figure& add_value(std::string_view workload, std::uint64_t n, double value, std::string_view unit);
};

/// One repetition.
struct run {
  const store_kind& kind;
  unsigned threads;
  std::filesystem::path folder;  ///< of this store alone
  figures& out;
  memory_state memory;

  [[nodiscard]] std::unique_ptr<store> open(std::uint64_t records, std::size_t key_size, std::size_t value_size) const;
  /// Before a phase that will take this much memory: touches as much if memory is to be warm.
  void touch(std::uint64_t bytes) const noexcept {
    if (memory == memory_state::warm) touch_memory(folder, bytes);
  }
};

/// The work of one process, which is killed after it.
struct stage {
  std::function<void(const run&)> work;
  bool reopens = false;  ///< continues with what the stage before left: for stores that survive a kill
};

/// What the stores of a suite are.
enum class store_form : std::uint8_t { versions, map, filtered };

struct suite {
  std::string name;
  std::string what;  ///< one sentence for --help
  store_form form = store_form::versions;
  /// Makes the inputs for a problem of size n, once for all stores, threads and repetitions.
  std::function<std::vector<stage>(std::uint64_t n)> prepare;

  [[nodiscard]] bool measures(const store_kind& kind) const noexcept {
    switch (form) {
      case store_form::versions:
        return static_cast<bool>(kind.open);
      case store_form::map:
        return static_cast<bool>(kind.open_map);
      case store_form::filtered:
        return static_cast<bool>(kind.open_filtered);
    }
    return false;
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
[[nodiscard]] suite query_suite();
[[nodiscard]] suite waits_suite();
[[nodiscard]] suite deep_key_suite();
[[nodiscard]] suite difference_suite();

/// All suites, in the order of reports.
[[nodiscard]] std::vector<suite> all_suites(const ycsb::settings& chosen = {});

}  // namespace icecore::bench
