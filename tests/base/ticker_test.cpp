#include "base/background/ticker.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace icecore {
namespace {

void wait_for(const std::atomic<int>& count, int more) {
  const int until = count + more;
  for (int i = 0; i < 2000 && count < until; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_GE(count, until);
}

TEST(Ticker, does_the_work_of_all_tasks_and_of_none_that_has_ended) {
  std::atomic<int> one{0};
  std::atomic<int> two{0};
  const ticking_task first([&] { ++one; });
  auto second = std::make_unique<ticking_task>([&] { ++two; });
  wait_for(one, 2);
  wait_for(two, 2);
  second.reset();
  const int then = two;
  wait_for(one, 2);
  EXPECT_EQ(two, then);
}

TEST(Ticker, has_a_thread_again_after_the_last_task_has_ended) {
  for (int i = 0; i < 3; ++i) {
    std::atomic<int> count{0};
    const ticking_task task([&] { ++count; });
    wait_for(count, 1);
  }
}

TEST(Ticker, tasks_begin_and_end_on_many_threads) {
  std::vector<std::thread> threads;
  std::atomic<int> all{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        auto alive = std::make_unique<int>(1);
        const ticking_task task([&all, at = alive.get()] { all += *at; });
      }
    });
  }
  for (std::thread& t : threads) t.join();
  std::atomic<int> count{0};
  const ticking_task task([&] { ++count; });
  wait_for(count, 1);
}

TEST(Ticker, a_forked_child_leaves_its_parents_tasks_and_may_have_its_own) {
  std::atomic<int> count{0};
  auto task = std::make_unique<ticking_task>([&] { ++count; });
  wait_for(count, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    task.reset();  // does not wait for a thread that the child does not have
    std::atomic<int> own{0};
    const ticking_task mine([&] { ++own; });
    for (int i = 0; i < 2000 && own == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ::_exit(own > 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  wait_for(count, 1);
}

}  // namespace
}  // namespace icecore
