// Whether it is right to poll for an answer, or better to sleep at once.
//
//   if (core.wanted_by_others() || now - last_event >= spin) { core.look(); sleep(); }
//
// Polling is quicker than to be woken, where the core has nothing else to do. Where there are more threads than cores,
// the peer that is waited for may be who waits for the core, until the poller's time slice is over: milliseconds. The
// kernel counts how often a thread was taken its core. After one such time the next polls are left out; then polling is
// tried again.
//
// Threads: one at a time; each asks for itself.
#pragma once

#include <sys/resource.h>

namespace icecore::wire {

class core_use {
 public:
  [[nodiscard]] bool wanted_by_others() const noexcept { return polls_left_out_ > 0; }

  /// Before each sleep, by the thread that has polled.
  void look() noexcept {
    if (was_preempted()) {
      polls_left_out_ = polls_to_leave_out;
    } else if (polls_left_out_ > 0) {
      --polls_left_out_;
    }
  }

 private:
  static constexpr unsigned polls_to_leave_out = 64;

  /// Since this thread last asked.
  [[nodiscard]] static bool was_preempted() noexcept {
    thread_local long seen = 0;
    rusage used{};
    if (getrusage(RUSAGE_THREAD, &used) != 0 || used.ru_nivcsw == seen) return false;
    seen = used.ru_nivcsw;
    return true;
  }

  unsigned polls_left_out_ = 0;
};

}  // namespace icecore::wire
