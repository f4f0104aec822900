// Waiting by polling, without occupying the core for long.
//
//   backoff pause;
//   while (!done()) pause.pause();
//
// First it only spins, for answers that are microseconds away. Then it yields the core, in case the awaited thread
// needs it. Then it sleeps for an eighth of the time it has waited so far, at most `sleep_max`. So the delay in
// noticing an event is small relative to the time waited, and an idle waiter costs almost nothing. Threads: one object
// for each waiting thread.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace icecore::mpi {

class backoff {
 public:
  using clock = std::chrono::steady_clock;
  static constexpr int spins = 32;
  static constexpr int yields = 128;
  static constexpr std::chrono::nanoseconds sleep_min{16'000};
  static constexpr std::chrono::nanoseconds sleep_max{1'000'000};

  void pause() {
    if (round_ < spins) {
      ++round_;
    } else if (round_ < spins + yields) {
      if (round_ == spins) since_ = clock::now();
      ++round_;
      sched_yield();
    } else {
      std::this_thread::sleep_for(sleep_after(clock::now() - since_));
    }
  }

  /// Call it when something happened, because the next event may be near.
  void reset() noexcept { round_ = 0; }

  /// How long to sleep after waiting so long.
  [[nodiscard]] static constexpr std::chrono::nanoseconds sleep_after(std::chrono::nanoseconds waited) noexcept {
    return std::clamp(waited / 8, sleep_min, sleep_max);
  }

 private:
  int round_ = 0;
  clock::time_point since_{};
};

}  // namespace icecore::mpi
