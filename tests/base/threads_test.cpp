#include "base/threads.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/background/background.hpp"

namespace {

/// Of this thread: so many allocations succeed, all behind them fail; negative: none fails.
thread_local int allocations_left = -1;

}  // namespace

// Not inline: the compiler would see malloc() and free() beside each other's counterpart.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  void* const made = std::malloc(size == 0 ? 1 : size);
  if (made == nullptr) throw std::bad_alloc();
  return made;
}
[[gnu::noinline]] void operator delete(void* made) noexcept { std::free(made); }
[[gnu::noinline]] void operator delete(void* made, std::size_t /*size*/) noexcept { std::free(made); }

namespace icecore {
namespace {

TEST(threads, living_ones_have_different_numbers_and_finished_ones_give_theirs_back) {
  constexpr unsigned count = 16;
  const auto numbers_of_a_round = [] {
    std::vector<unsigned> numbers(count);
    std::barrier all_alive(count);
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        numbers[i] = thread_number();
        all_alive.arrive_and_wait();
      });
    }
    threads.clear();
    return std::set<unsigned>(numbers.begin(), numbers.end());
  };
  const auto first = numbers_of_a_round();
  EXPECT_EQ(first.size(), count);
  EXPECT_EQ(numbers_of_a_round(), first);
}

TEST(threads, one_that_needs_a_number_while_it_ends_takes_one_that_no_other_has) {
  struct ending {
    std::atomic<unsigned> own{detail::no_number};
    std::atomic<unsigned> other{detail::no_number};
  } seen;
  static_cast<void>(thread_number());  // the key that gives numbers back is made before this test's, and runs before it
  pthread_key_t key{};
  ASSERT_EQ(pthread_key_create(&key,
                               [](void* at) {
                                 auto& s = *static_cast<ending*>(at);
                                 std::jthread other([&s] {
                                   s.other = thread_number();
                                   while (s.own == detail::no_number) std::this_thread::yield();
                                 });
                                 while (s.other == detail::no_number) std::this_thread::yield();
                                 s.own = thread_number();
                               }),
            0);
  std::jthread([&] {
    static_cast<void>(thread_number());
    pthread_setspecific(key, &seen);
  }).join();
  pthread_key_delete(key);
  EXPECT_NE(seen.own, detail::no_number);
  EXPECT_NE(seen.own, seen.other);
}

TEST(threads, of_a_child_forked_while_others_begin_and_end_get_numbers) {
  std::atomic<bool> over{false};
  std::vector<std::jthread> makers;
  for (int i = 0; i < 4; ++i) {
    makers.emplace_back([&] {
      while (!over) std::jthread([] { static_cast<void>(thread_number()); }).join();
    });
  }
  for (int i = 0; i < 400; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      // start no thread: the child may have inherited locks of the C library from threads that were just starting
      detail::own_thread_number = detail::no_number;
      _exit(thread_number() == detail::no_number ? 1 : 0);
    }
    int status = -1;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (waitpid(child, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > end) kill(child, SIGKILL);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    ASSERT_EQ(status, 0) << "the child waits for a lock that no thread of it holds";
  }
  over = true;
}

std::atomic<bool> watches{false};
std::atomic<bool> has_number{false};
bool had_number_during_fork = false;
std::jthread taker;

/// Starts a thread that takes a number, waits some time for it, and notes whether it got one before the fork.
void watch_fork() {
  if (!watches) return;
  taker = std::jthread([] {
    static_cast<void>(thread_number());
    has_number = true;
  });
  for (int i = 0; i < 200 && !has_number; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  had_number_during_fork = has_number;
}

// Registered before the library's handler, so that it runs after that handler: as the last thing before the fork.
[[gnu::constructor(101)]] void register_watch() { pthread_atfork(watch_fork, nullptr, nullptr); }

TEST(threads, take_no_number_while_a_process_forks) {
  watches = true;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  watches = false;
  EXPECT_FALSE(had_number_during_fork) << "the child may inherit a mutex that no thread of it will unlock";
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  taker.join();
  EXPECT_TRUE(has_number);
}

TEST(threads, run_on_threads_runs_each_number_once_and_waits_for_all) {
  std::vector<std::atomic<int>> ran(8);
  run_on_threads(8, [&](unsigned i) { ++ran[i]; });
  for (const auto& n : ran) EXPECT_EQ(n, 1);
}

TEST(threads, run_on_threads_needs_no_memory) {
  for (int left = 0; left < 10; ++left) {
    std::atomic<unsigned> ran{0};
    const auto body = [&](unsigned) { ++ran; };
    allocations_left = left;
    run_on_threads(4, std::ref(body));
    allocations_left = -1;
    EXPECT_EQ(ran, 4U) << left;
  }
}

TEST(threads, run_on_threads_throws_on_after_all_have_ended) {
  std::atomic<int> ended{0};
  EXPECT_THROW(run_on_threads(4,
                              [&](unsigned i) {
                                if (i == 2) throw std::runtime_error("two");
                                ++ended;
                              }),
               std::runtime_error);
  EXPECT_EQ(ended, 3);
}

TEST(threads, of_one_that_is_bound_to_a_core_run_on_all_cores_of_the_process) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const int all = CPU_COUNT(&before);
  if (all < 2) GTEST_SKIP() << "there is one core";
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(core_count(), static_cast<unsigned>(all));
    const auto own_cores = [] {
      cpu_set_t own;
      return sched_getaffinity(0, sizeof own, &own) == 0 ? CPU_COUNT(&own) : 0;
    };
    run_on_threads(2, [&](unsigned i) { EXPECT_EQ(own_cores(), i == 0 ? 1 : all); });
    std::atomic<int> of_background{0};
    background work([&] { of_background = own_cores(); });
    work.ask();
    while (of_background == 0) std::this_thread::yield();
    EXPECT_EQ(of_background, all);
  }).join();
}

TEST(threads, of_one_that_may_use_several_cores_stay_on_these) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  if (CPU_COUNT(&all) < 3) GTEST_SKIP() << "no two cores are fewer than all";
  std::thread([&] {
    cpu_set_t two;
    CPU_ZERO(&two);
    for (std::size_t core = 0; CPU_COUNT(&two) < 2; ++core) {
      if (CPU_ISSET(core, &all)) CPU_SET(core, &two);
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof two, &two), 0);
    EXPECT_EQ(core_count(), 2U);
    run_on_threads(2, [&](unsigned) {
      cpu_set_t own;
      ASSERT_EQ(sched_getaffinity(0, sizeof own, &own), 0);
      EXPECT_TRUE(CPU_EQUAL(&own, &two));
    });
  }).join();
}

TEST(threads, there_is_a_core_to_run_on) {
  EXPECT_GE(core_count(), 1U);
  EXPECT_EQ(thread_count(0), core_count());
  EXPECT_EQ(thread_count(7), 7U);
}

}  // namespace
}  // namespace icecore
