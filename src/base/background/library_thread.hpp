// A thread that the library makes for itself: all signals are blocked in it, for the program's signals are for its own
// threads, and it may run on the cores of the process, not only on the one to which its maker is bound.
//
//   thread_ = library_thread([this] { run(); });
//
// Errors: errc::io if no thread can be made.
#pragma once

#include <signal.h>

#include <system_error>
#include <thread>
#include <utility>

#include "base/raise.hpp"
#include "base/threads.hpp"

namespace icecore {

template <class Work>
[[nodiscard]] std::thread library_thread(Work work) {
  class blocked_signals {
   public:
    blocked_signals() noexcept {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~blocked_signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    blocked_signals(const blocked_signals&) = delete;
    blocked_signals& operator=(const blocked_signals&) = delete;

   private:
    sigset_t before_;
  };
  const blocked_signals while_it_is_made;  // it inherits them
  try {
    return std::thread([work = std::move(work)]() mutable {
      leave_core_of_maker();
      work();
    });
  } catch (const std::system_error& e) {
    raise(errc::io, "no thread could be made: {} (ulimit -u, or a limit of the container, says how many there may be)",
          e.code().message());
  }
}

}  // namespace icecore
