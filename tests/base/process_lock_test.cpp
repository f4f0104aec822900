#include "base/process_lock.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>

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

/// A process that takes the lock as `hold` does and ends with it.
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
  both_->lock.outlives_kills();
  end_while_holding([this] {
    both_->lock.lock();
    both_->plain = 1;  // half of what is to be 2
  });
  {
    const mended_lock held(both_->lock, [this] { both_->plain = 2; });
    EXPECT_EQ(both_->plain, 2);
  }
  {
    const mended_lock held(both_->lock, [] { FAIL() << "mended twice"; });
  }
  EXPECT_FALSE(both_->flag);
}

TEST_F(process_locks, are_mended_again_where_whoever_mended_was_killed_or_failed) {
  both_->lock.outlives_kills();
  end_while_holding([this] { both_->lock.lock(); });
  end_while_holding([this] { const mended_lock held(both_->lock, [] { _exit(0); }); });
  EXPECT_THROW(mended_lock(both_->lock, [] { throw std::runtime_error("no room"); }), std::runtime_error);
  {
    const std::scoped_lock looks_only(both_->lock);
    EXPECT_TRUE(both_->lock.left_half_done());
  }
  int mended = 0;
  {
    const mended_lock held(both_->lock, [&] { ++mended; });
  }
  EXPECT_EQ(mended, 1);
}

TEST_F(process_locks, tell_whether_somebody_who_lives_holds_them) {
  both_->lock.outlives_kills();
  end_while_holding([this] { both_->lock.lock(); });
  ASSERT_TRUE(both_->lock.try_lock());
  EXPECT_TRUE(both_->lock.left_half_done());
  std::thread([this] { EXPECT_FALSE(both_->lock.try_lock()); }).join();
  both_->lock.mended();
  both_->lock.unlock();
}

}  // namespace
}  // namespace icecore
