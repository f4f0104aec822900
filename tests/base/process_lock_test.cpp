#include "base/locks/process_lock.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

namespace icecore {
namespace {

struct common {
  process_lock lock;
  std::atomic<bool> flag{false};
  std::atomic<int> count{0};
  int plain = 0;
};

class process_locks : public ::testing::Test {
 protected:
  process_locks()
      : memory_(mmap(nullptr, sizeof(common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
        both_(new(memory_) common) {
    both_->lock.raises(both_->flag);
  }
  ~process_locks() override { munmap(memory_, sizeof(common)); }

  void* memory_;
  common* both_;
};

TEST_F(process_locks, let_one_process_in_at_a_time) {
  constexpr int each = 20'000;
  const auto work = [this] {
    for (int i = 0; i < each; ++i) {
      const std::scoped_lock held(both_->lock);
      ++both_->plain;
    }
  };
  const pid_t other = fork();
  if (other == 0) {
    work();
    _exit(0);
  }
  work();
  ASSERT_EQ(waitpid(other, nullptr, 0), other);
  EXPECT_EQ(both_->plain, 2 * each);
  EXPECT_FALSE(both_->flag);
}

TEST_F(process_locks, whose_holder_died_are_never_had_again_and_say_so) {
  const pid_t other = fork();
  if (other == 0) {
    both_->lock.lock();
    _exit(0);
  }
  ASSERT_EQ(waitpid(other, nullptr, 0), other);
  for (int i = 0; i < 3; ++i) {
    try {
      both_->lock.lock();
      FAIL() << "the lock was given";
    } catch (const error& failure) {
      EXPECT_EQ(failure.code(), errc::poisoned);
    }
    EXPECT_TRUE(both_->flag);
  }
}

/// All children are forked before any of them waits. The parent kills those that still wait at the end.
TEST_F(process_locks, whose_holder_is_killed_let_go_all_who_wait_for_them) {
  constexpr int waiting = 8;
  const pid_t holder = fork();
  if (holder == 0) {
    both_->lock.lock();
    both_->count = 1;
    for (;;) pause();
  }
  while (both_->count < 1) std::this_thread::sleep_for(std::chrono::microseconds(100));
  std::vector<pid_t> others;
  for (int i = 0; i < waiting; ++i) {
    others.push_back(fork());
    if (others.back() != 0) continue;
    ++both_->count;
    try {
      both_->lock.lock();
    } catch (const error& failure) {
      _exit(failure.code() == errc::poisoned ? 0 : 2);
    }
    _exit(1);
  }
  while (both_->count < 1 + waiting) std::this_thread::sleep_for(std::chrono::microseconds(100));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // by now most of them wait
  ASSERT_EQ(kill(holder, SIGKILL), 0);
  ASSERT_EQ(waitpid(holder, nullptr, 0), holder);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (const pid_t other : others) {
    int status = -1;
    while (waitpid(other, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > end) kill(other, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(status, 0) << "it waits for ever, or was let in";
  }
}

TEST_F(process_locks, whose_holder_died_say_so_to_all_who_only_try) {
  const pid_t other = fork();
  if (other == 0) {
    both_->lock.lock();
    _exit(0);
  }
  ASSERT_EQ(waitpid(other, nullptr, 0), other);
  for (int i = 0; i < 4; ++i) {
    try {
      EXPECT_FALSE(both_->lock.try_lock());
      ADD_FAILURE() << "try " << i << " finds it held by somebody who lives";
    } catch (const error& failure) {
      EXPECT_EQ(failure.code(), errc::poisoned);
    }
  }
}

TEST_F(process_locks, let_go_whoever_waits_once_the_flag_is_raised) {
  both_->lock.lock();
  both_->flag = true;
  std::thread([this] {
    try {
      both_->lock.lock();
      ADD_FAILURE() << "the lock was given";
    } catch (const error& failure) {
      EXPECT_EQ(failure.code(), errc::poisoned);
    }
  }).join();
  both_->lock.unlock();
}

/// Starts a process that takes the lock as `hold` does and ends while it holds the lock.
template <typename Hold>
void end_while_holding(Hold hold) {
  const pid_t other = fork();
  if (other == 0) {
    hold();
    _exit(0);
  }
  ASSERT_EQ(waitpid(other, nullptr, 0), other);
}

TEST_F(process_locks, that_outlive_kills_let_the_next_one_mend) {
  both_->lock.make_robust();
  end_while_holding([this] {
    both_->lock.lock();
    both_->plain = 1;  // half of a change to 2
  });
  {
    const recovering_lock held(both_->lock, [this] { both_->plain = 2; });
    EXPECT_EQ(both_->plain, 2);
  }
  {
    const recovering_lock held(both_->lock, [] { FAIL() << "repaired twice"; });
  }
  EXPECT_FALSE(both_->flag);
}

TEST_F(process_locks, are_mended_again_where_whoever_mended_was_killed_or_failed) {
  both_->lock.make_robust();
  end_while_holding([this] { both_->lock.lock(); });
  end_while_holding([this] { const recovering_lock held(both_->lock, [] { _exit(0); }); });
  EXPECT_THROW(recovering_lock(both_->lock, [] { throw std::runtime_error("no room"); }), std::runtime_error);
  {
    const std::scoped_lock looks_only(both_->lock);
    EXPECT_TRUE(both_->lock.owner_died());
  }
  int repaired = 0;
  {
    const recovering_lock held(both_->lock, [&] { ++repaired; });
  }
  EXPECT_EQ(repaired, 1);
}

TEST_F(process_locks, tell_whether_somebody_who_lives_holds_them) {
  both_->lock.make_robust();
  end_while_holding([this] { both_->lock.lock(); });
  ASSERT_TRUE(both_->lock.try_lock());
  EXPECT_TRUE(both_->lock.owner_died());
  std::thread([this] { EXPECT_FALSE(both_->lock.try_lock()); }).join();
  both_->lock.mark_consistent();
  both_->lock.unlock();
}

}  // namespace
}  // namespace icecore
