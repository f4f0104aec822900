// Whether a thread is told that it polls on a core which others want.
#include "wire/transport/polling.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace icecore::wire {
namespace {

using namespace std::chrono_literals;

TEST(core_use, a_thread_that_has_lost_its_core_polls_no_more_until_it_keeps_it) {
  // All threads on one core, which the first asks about.
  const auto onto_first_core = [] {
    cpu_set_t all;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    int first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  };
  std::atomic<bool> stop{false};
  std::thread other;
  std::thread poller([&] {
    onto_first_core();
    other = std::thread([&] {
      while (!stop.load(std::memory_order_relaxed)) {
      }
    });
    core_use core;
    const auto limit = std::chrono::steady_clock::now() + 1min;
    while (!core.wanted_by_others() && std::chrono::steady_clock::now() < limit) core.look();
    EXPECT_TRUE(core.wanted_by_others());
    stop = true;
    while (core.wanted_by_others() && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(10us);  // it gives the core away by itself
      core.look();
    }
    EXPECT_FALSE(core.wanted_by_others());
  });
  poller.join();
  other.join();
}

}  // namespace
}  // namespace icecore::wire
