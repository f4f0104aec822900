// Long work beside clients, on a thread to which the scheduler prefers those that answer them.
//
//   stepped_back([&] { write_everything(); });      // returns when it is done, and throws what it throws
//
// A thread of its own, since without a privilege no thread gets its priority back. Threads that the work begins inherit
// the priority (setpriority(2) is for one thread in Linux, and new threads take it from whoever makes them).
#pragma once

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <exception>
#include <thread>

namespace icecore::service {

template <typename Work>
void stepped_back(Work work) {
  constexpr int niceness = 10;
  std::exception_ptr failed;
  std::thread([&] {
    static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), niceness));
    try {
      work();
    } catch (...) {
      failed = std::current_exception();
    }
  }).join();
  if (failed) std::rethrow_exception(failed);
}

}  // namespace icecore::service
