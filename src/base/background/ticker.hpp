// Work that is done again and again, by one thread of the process for all who want it.
//
//   const ticking_task looks([&] { point.look(); });     // from now on, each 50 ms, until it is destroyed
//
// Threads: tasks are made and destroyed by any thread. One thread does all work, one task after the other; it lives
//   while there are tasks, and all signals are blocked in it. A task's destruction returns when its work is not running
//   and never will be again. So it must not happen in the work, nor while the caller holds what the work waits for.
// Errors: the work must not throw. If no thread can be made, nothing is done.
// A forked child has no such thread: tasks that it has inherited do nothing, and new ones get a thread of its own.
// Cost: a wake-up each 50 ms for the whole process, and the work.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace icecore {

class ticking_task {
 public:
  static constexpr std::chrono::milliseconds interval{50};

  explicit ticking_task(std::function<void()> work);
  ~ticking_task();
  ticking_task(const ticking_task&) = delete;
  ticking_task& operator=(const ticking_task&) = delete;

  /// Whether a thread does the work.
  [[nodiscard]] bool has_thread() const noexcept { return has_thread_; }

 private:
  struct ticker;
  [[nodiscard]] static ticker& ticker_of_this_process();

  std::function<void()> work_;
  ticker* in_;
  bool has_thread_ = false;
};

}  // namespace icecore
