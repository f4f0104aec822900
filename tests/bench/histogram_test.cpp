// Percentiles of durations, against those of the sorted durations.
#include "ycsb/histogram.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace icecore::bench::ycsb {
namespace {

std::uint64_t exact_percentile(const std::vector<std::uint64_t>& sorted, double percent) {
  const auto wanted = static_cast<std::size_t>(std::ceil(static_cast<double>(sorted.size()) * percent / 100));
  return sorted[std::max<std::size_t>(wanted, 1) - 1];
}

TEST(histogram, of_nothing_has_percentiles_of_0) {
  const histogram none;
  EXPECT_EQ(none.count(), 0U);
  EXPECT_EQ(none.percentile(99.99), 0U);
  EXPECT_EQ(none.max(), 0U);
}

TEST(histogram, one_duration_is_every_percentile) {
  for (const std::uint64_t ns : {0ULL, 1ULL, 127ULL, 128ULL, 1'000'003ULL, 1ULL << 63, ~0ULL}) {
    histogram one;
    one.add(ns);
    for (const double percent : {0.0, 50.0, 99.99, 100.0}) EXPECT_EQ(one.percentile(percent), ns) << ns;
  }
}

TEST(histogram, tells_percentiles_at_most_a_64th_too_large_and_never_too_small) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> durations(7, 2);
  histogram reported;
  std::vector<std::uint64_t> sorted(100'000);
  for (std::uint64_t& ns : sorted) {
    ns = static_cast<std::uint64_t>(durations(random));
    reported.add(ns);
  }
  std::ranges::sort(sorted);
  EXPECT_EQ(reported.count(), sorted.size());
  EXPECT_EQ(reported.max(), sorted.back());
  for (const double percent : {0.0, 1.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0}) {
    const std::uint64_t exact = exact_percentile(sorted, percent);
    EXPECT_GE(reported.percentile(percent), exact) << percent;
    EXPECT_LE(reported.percentile(percent), exact + exact / 64) << percent;
  }
}

TEST(histogram, those_of_threads_add_up) {
  histogram low, high, both;
  for (std::uint64_t ns = 0; ns < 1000; ++ns) {
    (ns < 900 ? low : high).add(ns * 10);
    both.add(ns * 10);
  }
  low.add(high);
  EXPECT_EQ(low.count(), both.count());
  EXPECT_EQ(low.max(), both.max());
  for (const double percent : {10.0, 50.0, 95.0, 99.9}) EXPECT_EQ(low.percentile(percent), both.percentile(percent));
}

}  // namespace
}  // namespace icecore::bench::ycsb
