// Waiting for other ranks without keeping them waiting: all open databases answer meanwhile.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

namespace papyruskv {

/// Whether MPI can be called.
[[nodiscard]] inline bool mpi_runs() noexcept {
  int begun = 0;
  int ended = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  return begun != 0 && ended == 0;
}

/// Lets the core to others between two looks: at first at once, later for up to half a millisecond.
class pause {
 public:
  void rest() {
    constexpr int looks_at_once = 64;
    constexpr std::chrono::microseconds rest_max{500};
    if (++looks_ <= looks_at_once) {
      std::this_thread::yield();
      return;
    }
    rest_ = std::min(rest_ * 2, rest_max);
    std::this_thread::sleep_for(rest_);
  }

 private:
  int looks_ = 0;
  std::chrono::microseconds rest_{4};
};

/// Answers what other ranks ask of this rank's databases, if no thread does.
using answer_others = std::function<void()>;

/// Returns when `done()`.
template <typename Done>
void wait_until(const answer_others& answer, Done&& done) {
  for (pause idle; !done(); idle.rest()) answer();
}

/// The same for a request of MPI.
inline void wait_for(const answer_others& answer, MPI_Request& request) {
  wait_until(answer, [&request] {
    int done = 0;
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  });
}

}  // namespace papyruskv
