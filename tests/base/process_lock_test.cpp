#include "base/process_lock.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <new>

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

}  // namespace
}  // namespace icecore
