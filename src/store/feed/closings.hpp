// How a thread waits for a version to be closed, in whatever process that shares the store.
//
//   closings.wait(200ms, [&] { return clock.now() != seen; });      // and whoever closes a version: closings.ring();
//
// Threads: all functions from any thread of any process. Cost: ring() one load if nobody waits; else a system call.
// A thread that waits is asleep. One that is killed while it waits costs the next ring() a system call, and no more.
// Argument: wait() first says that somebody waits, then looks whether it must; ring() comes after the change, and looks
//   whether somebody waits. Both are sequentially consistent, so one of the two sees the other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace icecore::detail {

class closings {
 public:
  /// Wakes those that wait. After the change for which they wait.
  void ring() noexcept {
    if (waiting_.load(std::memory_order_seq_cst) == 0) [[likely]]
      return;
    wake();
  }
  /// Returns when somebody has rung, after `at_most`, or at once if ready() says so; perhaps earlier.
  template <typename Ready>
  void wait(std::chrono::nanoseconds at_most, const Ready& ready) noexcept(noexcept(ready())) {
    // acquire: a ring that comes after this load changes the word, and the system call then does not wait
    const std::uint32_t seen = rung_.load(std::memory_order_acquire);
    waiting_.store(1, std::memory_order_seq_cst);
    if (!ready()) sleep(seen, at_most);
  }

 private:
  void wake() noexcept;
  void sleep(std::uint32_t seen, std::chrono::nanoseconds at_most) noexcept;

  std::atomic<std::uint32_t> waiting_{0};
  std::atomic<std::uint32_t> rung_{0};
};

}  // namespace icecore::detail
