// Gauges: what is given out never exceeds the limit, and comes back.
#include "service/limits.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <thread>
#include <vector>

#include "icecore/error.hpp"

using icecore::errc;
using icecore::service::gauge;

TEST(Gauge, gives_out_as_much_as_there_is_and_takes_it_back) {
  gauge g("watches", 10);
  {
    gauge::share first = g.take(9);
    gauge::share second;
    EXPECT_FALSE(g.try_take(2, second));
    EXPECT_TRUE(g.try_take(1, second));
    EXPECT_EQ(g.used(), 10U);
    EXPECT_FALSE(g.try_take(1, second)) << "and what was taken stays";
    EXPECT_EQ(g.used(), 10U);
    EXPECT_EQ(g.refused(), 2U);
    gauge::share moved = std::move(first);
    first = gauge::share();
    EXPECT_EQ(g.used(), 10U);
    moved = std::move(second);
    EXPECT_EQ(g.used(), 1U);
  }
  EXPECT_EQ(g.used(), 0U);
}

// What a request of exactly the limit, of one byte less, and of one more gets: in_flight_bytes is such a gauge.
TEST(Gauge, gives_out_its_whole_value_and_not_one_more) {
  for (const std::uint64_t asked : {99U, 100U, 101U}) {
    gauge g("in_flight_bytes", 100);
    gauge::share one;
    EXPECT_EQ(g.try_take(asked, one), asked <= 100) << asked;
    EXPECT_EQ(g.refused(), asked <= 100 ? 0U : 1U);
    gauge::share more;
    EXPECT_EQ(g.try_take(1, more), asked != 100) << asked;
  }
}

TEST(Gauge, names_its_limit_when_it_refuses) {
  gauge g("open_scans", 3);
  const auto held = g.take(3);
  try {
    (void)g.take(1);
    FAIL();
  } catch (const icecore::error& e) {
    EXPECT_EQ(e.code(), errc::limit_reached);
    EXPECT_NE(std::string(e.what()).find("open_scans"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("is 3"), std::string::npos) << e.what();
  }
}

TEST(Gauge, cannot_be_fooled_by_sums_that_overflow) {
  gauge g("bytes", 10);
  const auto held = g.take(5);
  gauge::share more;
  EXPECT_FALSE(g.try_take(std::numeric_limits<std::uint64_t>::max(), more));
  EXPECT_FALSE(g.try_take(std::numeric_limits<std::uint64_t>::max() - 4, more));
  EXPECT_EQ(g.used(), 5U);
}

TEST(Gauge, without_a_limit_only_counts) {
  gauge g("connections", 0);
  const auto many = g.take(std::uint64_t{1} << 60);
  EXPECT_EQ(g.used(), std::uint64_t{1} << 60);
  EXPECT_EQ(g.refused(), 0U);
}

TEST(Gauge, is_never_above_its_limit_with_many_threads) {
  gauge g("bytes", 100);
  std::atomic<bool> above{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&g, &above, t] {
      for (int i = 0; i < 50'000; ++i) {
        gauge::share mine;
        if (g.try_take(20 + t * 10, mine) && g.used() > 100) above = true;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_FALSE(above);
  EXPECT_EQ(g.used(), 0U);
}
