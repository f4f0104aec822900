// A suite: workloads that are run, one after the other, on one store by one number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "../stores/store.hpp"

namespace icecore::bench {

/// What one repetition of one workload gave.
struct figure {
  std::array<char, 32> workload;
  std::uint64_t n;    ///< size of the problem: keys, or records
  double operations;  ///< how many were timed
  double seconds;
  double bytes_per_key;  ///< of the store's files; 0: not asked
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

/// What one process does; it is killed after it.
struct stage {
  std::function<void(const run&)> work;
  bool reopens = false;  ///< works on what the stage before left: for stores that survive a kill
};

struct suite {
  std::string name;
  std::string what;  ///< in a sentence, for --help
  /// Makes the inputs for a problem of size n, once for all stores, threads and repetitions.
  std::function<std::vector<stage>(std::uint64_t n)> prepare;
};

[[nodiscard]] suite paper_suite();
[[nodiscard]] suite depth_suite();
[[nodiscard]] suite paths_suite();
[[nodiscard]] suite values_suite();
[[nodiscard]] suite sequential_suite();
[[nodiscard]] suite mixed_suite();

/// All suites, in the order of reports.
[[nodiscard]] const std::vector<suite>& all_suites();

}  // namespace icecore::bench
