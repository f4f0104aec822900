// The choosers draw what their definitions say: frequencies and means against theory, bounds, the same by the same
// seed.
#include "ycsb/choosers.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace icecore::bench::ycsb {
namespace {

double summed_zeta(std::uint64_t n, double theta) {
  double sum = 0;
  for (std::uint64_t i = n; i > 0; --i) sum += std::pow(static_cast<double>(i), -theta);
  return sum;
}

/// How often each number of 0 .. count - 1 was drawn; all that is drawn has to be one of them.
template <typename Chooser>
std::vector<double> frequencies(const Chooser& chooser, std::uint64_t count, std::uint64_t draws, std::uint64_t seed) {
  random_numbers random(seed);
  std::vector<double> drawn(count);
  for (std::uint64_t i = 0; i < draws; ++i) drawn.at(chooser(random)) += 1.0 / static_cast<double>(draws);
  return drawn;
}

TEST(zeta, is_the_sum_it_abbreviates) {
  for (const double theta : {0.1, 0.5, 0.99, 0.999}) {
    for (const std::uint64_t n : {1U, 2U, 999U, 1'000U, 1'001U, 200'000U}) {
      const double sum = summed_zeta(n, theta);
      EXPECT_NEAR(zeta(n, theta), sum, sum * 1e-11) << n << ' ' << theta;
    }
  }
}

TEST(zeta, of_ten_thousand_million_is_the_constant_of_ycsb) {
  EXPECT_NEAR(zeta(scrambled_zipfian::rank_count, theta_default), 26.46902820178302, 1e-7);
}

TEST(fnv_hash, is_the_one_of_ycsb) {
  // FNV-1a of eight zero bytes, and of 1 and seven of them.
  EXPECT_EQ(fnv_hash(0), 0xa8c7f832281a39c5U);
  EXPECT_EQ(fnv_hash(1), 0x89cd31291d2aefa4U);
}

TEST(unit, is_uniform_in_0_to_1) {
  random_numbers random(3);
  constexpr int draws = 200'000;
  double sum = 0, squares = 0;
  for (int i = 0; i < draws; ++i) {
    const double u = unit(random);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / draws, 0.5, 0.005);
  EXPECT_NEAR(squares / draws, 1.0 / 3, 0.005);
}

TEST(zipfian, the_first_ranks_are_as_frequent_as_their_powers_say) {
  constexpr std::uint64_t count = 1'000, draws = 1'000'000;
  for (const double theta : {0.3, 0.7, 0.99}) {
    const auto drawn = frequencies(zipfian(count, theta), count, draws, 1);
    for (const std::uint64_t rank : {0U, 1U}) {
      const double wanted = std::pow(static_cast<double>(rank + 1), -theta) / zeta(count, theta);
      EXPECT_NEAR(drawn[rank], wanted, 5 * std::sqrt(wanted / draws)) << rank << ' ' << theta;
    }
  }
}

TEST(zipfian, the_ranks_behind_follow_the_curve) {
  constexpr std::uint64_t count = 1'000, draws = 1'000'000;
  const auto drawn = frequencies(zipfian(count, theta_default), count, draws, 2);
  // A continuous curve stands for the steps: the method's error is up to a tenth.
  for (const auto& [from, to] : {std::pair{2, 10}, std::pair{10, 100}, std::pair{100, 1'000}}) {
    const double wanted =
        (zeta(static_cast<std::uint64_t>(to), theta_default) - zeta(static_cast<std::uint64_t>(from), theta_default)) /
        zeta(count, theta_default);
    EXPECT_NEAR(std::accumulate(drawn.begin() + from, drawn.begin() + to, 0.0), wanted, 0.1 * wanted) << from;
  }
}

TEST(zipfian, draws_within_few_ranks) {
  for (const std::uint64_t count : {1U, 2U, 3U}) {
    const auto drawn = frequencies(zipfian(count, theta_default), count, 100'000, 3);
    for (std::uint64_t rank = 0; rank < count; ++rank) {
      EXPECT_NEAR(drawn[rank], std::pow(static_cast<double>(rank + 1), -theta_default) / zeta(count, theta_default),
                  0.03);
    }
  }
}

TEST(zipfian, one_that_grew_draws_as_one_that_was_made_so) {
  zipfian grown(10, theta_default);
  for (std::uint64_t count = 11; count <= 5'000; count += 7) grown.grow(count);
  grown.grow(5'000);
  grown.grow(4'000);
  const zipfian made(5'000, theta_default);
  random_numbers one(4), other(4);
  int differing = 0;
  for (int i = 0; i < 100'000; ++i) differing += grown(one) == made(other) ? 0 : 1;
  EXPECT_LE(differing, 5);  // sums in another order differ in their last digits
}

TEST(scrambled_zipfian, strews_the_popular_over_all_records) {
  constexpr std::uint64_t records = 1'000, draws = 1'000'000;
  const auto drawn = frequencies(scrambled_zipfian(records, theta_default), records, draws, 5);
  const double most = 1 / zeta(scrambled_zipfian::rank_count, theta_default);
  const std::uint64_t popular = fnv_hash(0) % records;
  EXPECT_EQ(static_cast<std::uint64_t>(std::ranges::max_element(drawn) - drawn.begin()), popular);
  // The rest of the ranks fall on it as on any record.
  EXPECT_NEAR(drawn[popular], most + (1 - most) / records, 0.002);
  for (std::size_t tenth = 0; tenth < 10; ++tenth) {
    const auto begin = drawn.begin() + static_cast<std::ptrdiff_t>(tenth * 100);
    const double share = std::accumulate(begin, begin + 100, 0.0);
    EXPECT_GT(share, 0.05) << tenth;
    EXPECT_LT(share, 0.2) << tenth;
  }
}

TEST(choosers, the_same_seed_draws_the_same_and_another_others) {
  const scrambled_zipfian popular(12'345, theta_default);
  const auto drawn_by = [&](std::uint64_t seed) {
    random_numbers random(seed);
    std::vector<std::uint64_t> drawn(1'000);
    for (auto& record : drawn) record = popular(random);
    return drawn;
  };
  EXPECT_EQ(drawn_by(6), drawn_by(6));
  EXPECT_NE(drawn_by(6), drawn_by(7));
}

}  // namespace
}  // namespace icecore::bench::ycsb
