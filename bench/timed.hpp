// Threads with one session each, timed from their common start to the end of the last one.
#pragma once

#include <barrier>
#include <chrono>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "cores.hpp"

namespace icecore::bench {

/// Runs `work(session, thread)` in `threads` threads, each with a session that `new_session()` returned, and returns
/// the seconds. Sessions are made before and ended after the timing. Rethrows the first thread's exception.
template <typename NewSession, typename Work>
double timed_with_sessions(unsigned threads, const NewSession& new_session, const Work& work) {
  using clock = std::chrono::steady_clock;
  clock::time_point begin;
  clock::time_point end;
  std::barrier start(static_cast<std::ptrdiff_t>(threads), [&]() noexcept { begin = clock::now(); });
  std::barrier finish(static_cast<std::ptrdiff_t>(threads), [&]() noexcept { end = clock::now(); });
  std::vector<std::exception_ptr> failures(threads);
  std::vector<std::thread> running;
  for (unsigned thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      stay_on_core(thread, threads);
      decltype(new_session()) own;
      try {
        own = new_session();
      } catch (...) {
        failures[thread] = std::current_exception();
      }
      start.arrive_and_wait();
      try {
        if (own) work(*own, thread);
      } catch (...) {
        failures[thread] = std::current_exception();
      }
      finish.arrive_and_wait();
    });
  }
  for (auto& thread : running) thread.join();
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace icecore::bench
