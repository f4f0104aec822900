#include "store/feed/closings.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <limits>

namespace icecore::detail {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "the kernel reads the word");

void closings::wake() noexcept {
  if (waiting_.exchange(0, std::memory_order_seq_cst) == 0) return;  // another one wakes them
  rung_.fetch_add(1, std::memory_order_release);
  // not FUTEX_PRIVATE: those that wait may be in other processes
  static_cast<void>(::syscall(SYS_futex, &rung_, FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0));
}

void closings::sleep(std::uint32_t seen, std::chrono::nanoseconds at_most) noexcept {
  if (at_most.count() <= 0) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
  const timespec limit{.tv_sec = seconds.count(), .tv_nsec = (at_most - seconds).count()};
  // a signal, or a word that has changed, ends it early: the caller looks again
  static_cast<void>(::syscall(SYS_futex, &rung_, FUTEX_WAIT, seen, &limit, nullptr, 0));
}

}  // namespace icecore::detail
