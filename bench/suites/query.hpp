// What the parts of the suite `query` share: the pairs, the right answers, and measuring in turns.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "../stores/filtered.hpp"
#include "suite.hpp"

namespace icecore::bench {

class icecore_filtered;

/// Keys of 8 random bytes and numbers from 0 to 999,999 in random order. Every other key is loaded twice.
class query_inputs {
 public:
  explicit query_inputs(std::uint64_t n);

  /// Shares of the keys that match, in thousandths: 0.1 to 100 %.
  static constexpr std::array<std::uint64_t, 5> thousandths = {1, 10, 100, 500, 1000};
  /// The bound below which so many numbers are.
  [[nodiscard]] static std::int64_t bound_of(std::uint64_t thousandth) {
    return static_cast<std::int64_t>(thousandth * 1000);
  }
  /// "0.1", "1", "10", "50", "100"
  [[nodiscard]] static std::string percent_of(std::uint64_t thousandth);

  void load(filtered_store& into) const;
  [[nodiscard]] std::uint64_t n() const noexcept { return pairs_.size(); }
  [[nodiscard]] const std::vector<filtered_pair>& pairs() const noexcept { return pairs_; }
  /// The keys whose number is less, in order, one after another.
  [[nodiscard]] std::string expected(std::int64_t below) const;

 private:
  std::vector<filtered_pair> pairs_, older_;
  std::vector<filtered_pair> sorted_;
};

/// What some work took: by the clock, and of the process' cores, which other load changes less.
struct cost {
  double seconds, cpu_seconds;
};

/// Seconds of cores that the process had so far, with all its threads.
[[nodiscard]] double cpu_seconds_so_far();

[[nodiscard]] inline cost timed(const auto& work) {
  const double cpu_before = cpu_seconds_so_far();
  const auto begin = std::chrono::steady_clock::now();
  work();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return {seconds, cpu_seconds_so_far() - cpu_before};
}

/// Medians of seconds, and of the ratios second / first of each pair.
struct paired_costs {
  double first, second, ratio, cpu_ratio;
};

/// Runs both `pairs` times in turns, each first in every other pair. Each returns what counts.
[[nodiscard]] paired_costs in_turns(unsigned pairs, const std::function<cost()>& first,
                                    const std::function<cost()>& second);

// What is asked of icecore alone. Precondition: the pairs are loaded.
void measure_kept_queries(const query_inputs& in, const run& r, icecore_filtered& s);
void measure_filter_costs(const query_inputs& in, const run& r, icecore_filtered& s);
void measure_writers_beside(const query_inputs& in, const run& r, icecore_filtered& s);
/// Stages of their own, each ended by a kill while a query runs.
[[nodiscard]] std::vector<stage> killed_query_stages(const std::shared_ptr<const query_inputs>& in);

}  // namespace icecore::bench
