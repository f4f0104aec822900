// What a benchmark says of its own figures: where a median lies, and what else the machine did.
#include "measure.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <numeric>
#include <thread>

#include "cores.hpp"

namespace icecore::bench {
namespace {

std::vector<double> one_to(std::size_t count) {
  std::vector<double> values(count);
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

double own_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

void be_busy_for(std::chrono::milliseconds time) {
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < time) {
  }
}

// The numbers that the tables of the sign test give for 95 %: how many of the least and the greatest are left out.
TEST(interval_of_median_, leaves_out_as_many_as_the_sign_test_allows) {
  const std::pair<std::size_t, double> left_out[] = {{2, 0},  {5, 0},  {6, 0},  {8, 0}, {9, 1},
                                                     {11, 1}, {12, 2}, {20, 5}, {31, 9}};
  for (const auto& [count, dropped] : left_out) {
    const auto [low, high, confidence] = interval_of_median(one_to(count));
    EXPECT_EQ(low, 1 + dropped) << count;
    EXPECT_EQ(high, static_cast<double>(count) - dropped) << count;
    EXPECT_EQ(confidence >= 0.95, count >= 6) << count;
  }
  EXPECT_DOUBLE_EQ(interval_of_median(one_to(5)).confidence, 0.9375);
}

TEST(interval_of_median_, of_one_repetition_says_nothing) {
  EXPECT_EQ(interval_of_median({7}).confidence, 0);
  EXPECT_EQ(interval_of_median({}).confidence, 0);
}

TEST(other_load_, tells_what_other_threads_took_and_not_what_was_measured) {
  const other_load others;
  std::thread another([] { be_busy_for(std::chrono::milliseconds(400)); });
  be_busy_for(std::chrono::milliseconds(400));
  another.join();
  const double all = others.cores(0), without_own = others.cores(own_seconds());
  EXPECT_GT(all, 0.5);  // of the two cores that this test keeps busy, on a machine however loaded
  EXPECT_LT(without_own, all);
}

TEST(stay_on_core_, keeps_a_thread_on_the_core_of_its_number_only_if_asked_to) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  stay_on_core(0, 1);
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
  keep_threads_on_cores();
  std::thread([&] {
    stay_on_core(0, 1);
    cpu_set_t own;
    ASSERT_EQ(sched_getaffinity(0, sizeof own, &own), 0);
    EXPECT_EQ(CPU_COUNT(&own), 1);
  }).join();
  std::thread([&] {  // more threads than cores: the kernel places them
    stay_on_core(0, static_cast<unsigned>(CPU_COUNT(&before)) + 1);
    cpu_set_t own;
    ASSERT_EQ(sched_getaffinity(0, sizeof own, &own), 0);
    EXPECT_TRUE(CPU_EQUAL(&before, &own));
  })
      .join();
}

}  // namespace
}  // namespace icecore::bench
