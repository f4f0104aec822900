// Runs suites on stores with several numbers of threads, repeated and interleaved, and collects medians.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "suites/suite.hpp"

namespace icecore::bench {

struct comparison_settings {
  std::vector<const suite*> suites;
  std::vector<const store_kind*> stores;
  std::vector<unsigned> threads = {1, 2};
  std::uint64_t n = 1'000'000;
  unsigned repetitions = 5;
  unsigned repetitions_max = 50;  ///< where `spread_max` is given
  double spread_max = 0;          ///< repeat until half of each row's interval is at most so much of its median; 0: not
  memory_state memory = memory_state::warm;
  std::filesystem::path folder = "/dev/shm";       ///< where stores are; makes and removes a folder in it
  std::filesystem::path sync_folder = "/var/tmp";  ///< a folder on the device whose syncs are measured
  unsigned limit_s = 3600;                         ///< for one process
  ycsb::settings of_ycsb{};                        ///< the settings of the suites of maps, for the report
};

/// The measurements so far. Rates are operations per second.
class comparison {
 public:
  explicit comparison(comparison_settings chosen);

  /// Measures, and calls `after_repetition` after each repetition. If a store fails in a suite, it is not measured
  /// there again with the same number of threads. Returns early, with complete repetitions only, when `stopped` returns
  /// true.
  void measure(const std::function<bool()>& stopped, const std::function<void()>& after_repetition);

  /// The machine, the configurations of stores, rows, failures; bench/README.md describes the form.
  [[nodiscard]] nlohmann::ordered_json to_json() const;
  /// Readable tables: medians, spreads, ratios to the first store; latencies.
  void print() const;
  [[nodiscard]] bool failed() const noexcept { return !failures_.empty(); }

 private:
  struct row_key {
    std::size_t suite, workload;  // in the order of their first figures
    unsigned threads;
    std::size_t store;
    auto operator<=>(const row_key&) const = default;
  };
  struct row {
    std::uint64_t n = 0;
    std::string unit;
    std::vector<double> rates;   // one a repetition
    std::vector<double> others;  // cores that other programs kept busy meanwhile
    std::vector<double> bytes_per_key;
    std::vector<figure> figures;  // whose latencies and tenths are reported
  };
  struct failure {
    std::size_t suite;
    unsigned threads;
    std::size_t store;
    std::string what;
  };

  void measure_limits();
  void measure_one(std::size_t suite, const std::vector<stage>& stages, unsigned threads, std::size_t store);
  void keep(std::size_t suite, unsigned threads, std::size_t store, const figures& measured, double others);
  [[nodiscard]] bool has_failed(std::size_t suite, unsigned threads, std::size_t store) const;
  [[nodiscard]] std::size_t runs_in_a_repetition() const;
  /// Whether half of the row's interval is small enough.
  [[nodiscard]] bool is_settled(const row& r) const;
  /// Whether the repetitions made so far suffice.
  [[nodiscard]] bool is_enough(unsigned repetitions) const;
  [[nodiscard]] interval ratio_to_first(const row_key& key, const row& r) const;
  [[nodiscard]] const row* first_of(const row_key& key) const;
  void print_latencies() const;
  [[nodiscard]] std::size_t workload_number(std::string_view name);
  [[nodiscard]] const std::string& suite_name(std::size_t suite) const;
  [[nodiscard]] const std::string& store_name(std::size_t suite, std::size_t store) const;

  comparison_settings chosen_;
  std::vector<std::string> workloads_;  // the names for row_key::workload
  std::map<row_key, row> rows_;
  std::vector<failure> failures_;
};

}  // namespace icecore::bench
