// A thread that does one thing whenever it is asked to, so that whoever asks need not wait for it.
//
//   background growth([&] { pool.grow(); });
//   growth.ask();                               // soon, on another thread; several calls meanwhile become one
//   growth.stop();                              // returns when it has ended: not in the middle of the work
//
// Threads: ask() from any thread; stop() and destruction from one at a time. All signals are blocked in the thread.
// Errors: the work must not throw. If no thread can be made, construction throws errc::io.
// A forked child has the object and no thread: there, stop() and destruction do nothing, and ask() has no effect.
// Cost: ask() one exchange, and a system call if the thread sleeps. A thread that is not asked is asleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace icecore {

class background {
 public:
  explicit background(std::function<void()> work);
  ~background() { stop(); }
  background(const background&) = delete;
  background& operator=(const background&) = delete;

  void ask() noexcept {
    // release: what the caller did before it asks is seen by the work. Asked already: the thread has not begun yet.
    if (state_.load(std::memory_order_relaxed) == idle && state_.exchange(asked, std::memory_order_acq_rel) == idle)
      state_.notify_one();
  }
  void stop() noexcept;

 private:
  static constexpr std::uint32_t idle = 0;
  static constexpr std::uint32_t asked = 1;

  void run() noexcept;

  std::function<void()> work_;
  std::uint64_t fork_generation_;
  // No mutex and no condition variable: a forked child could neither lock nor destroy what the thread used.
  std::atomic<std::uint32_t> state_{idle};
  std::atomic<bool> stopping_{false};
  std::thread thread_;  // last: it uses the others
};

}  // namespace icecore
