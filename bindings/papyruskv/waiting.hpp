// Waiting for other ranks while all open databases answer their requests.
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

/// Gives the core to other threads between two checks: first by yielding, later by sleeping up to half a millisecond.
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

/// Answers the requests to this rank's databases, if no thread does.
using answer_others = std::function<void()>;

/// Returns when `done()` is true.
template <typename Done>
void wait_until(const answer_others& answer, Done&& done) {
  for (pause idle; !done(); idle.rest()) answer();
}

/// The same for an MPI request.
inline void wait_for(const answer_others& answer, MPI_Request& request) {
  wait_until(answer, [&request] {
    int done = 0;
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  });
}

}  // namespace papyruskv
