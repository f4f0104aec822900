// Starts a thread of the library that blocks all signals, so that the program's threads get them.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace icecore::mpi {

template <typename Body>
[[nodiscard]] std::thread start_quiet_thread(Body&& body) {
  class signals_blocked {
   public:
    signals_blocked() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_BLOCK, &all, &before_);
    }
    ~signals_blocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    signals_blocked(const signals_blocked&) = delete;
    signals_blocked& operator=(const signals_blocked&) = delete;

   private:
    sigset_t before_;
  };
  const signals_blocked inherited;
  return std::thread(std::forward<Body>(body));
}

}  // namespace icecore::mpi
