// Threads that the store under test starts, and its clocks: fibers are joined to those that run, and time passes by the
// microsecond, so that a story is the same each time. Outside of fibers and recordings both are the real ones.
#include <pthread.h>
#include <time.h>

#include <chrono>
#include <memory>
#include <set>
#include <thread>

#include "fibers.hpp"
#include "machine.hpp"

using icecore::crash::fibers;
using icecore::crash::machine;

namespace {

// Of fibers that are threads: numbers, which no real thread has.
std::set<pthread_t> running;
pthread_t last_number = 0;
constexpr pthread_t numbers_max = 1'000'000;

std::chrono::nanoseconds now(clockid_t clock) noexcept {
  if (machine::get().recording()) return machine::get().tick();
  timespec t{};
  clock_gettime(clock, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

}  // namespace

namespace std {

void thread::_M_start_thread(_State_ptr state, void (*)()) {
  if (!fibers::active() && machine::get().recording()) {
    // the ticker's, which would be beside the story: what it looks for is found by the calls, too
    static_cast<void>(state.release());
    last_number = last_number % numbers_max + 1;
    _M_id = id(last_number);
    return;
  }
  if (!fibers::active()) {
    const auto body = [](void* of) -> void* {
      const _State_ptr own(static_cast<_State*>(of));
      own->_M_run();
      return nullptr;
    };
    if (pthread_create(&_M_id._M_thread, nullptr, body, state.get()) != 0) {
      throw system_error(make_error_code(errc::resource_unavailable_try_again));
    }
    static_cast<void>(state.release());
    return;
  }
  last_number = last_number % numbers_max + 1;
  const pthread_t number = last_number;
  running.insert(number);
  _M_id = id(number);
  fibers::spawn([number, own = shared_ptr<_State>(std::move(state))]() mutable {
    own->_M_run();
    own.reset();
    running.erase(number);
    fibers::wake(&running);
  });
}

void thread::join() {
  const pthread_t number = _M_id._M_thread;
  if (number > numbers_max) {
    pthread_join(number, nullptr);
  } else {
    while (running.contains(number)) fibers::block(&running);
  }
  _M_id = id();
}

namespace chrono {
inline namespace _V2 {

steady_clock::time_point steady_clock::now() noexcept { return time_point(::now(CLOCK_MONOTONIC)); }
system_clock::time_point system_clock::now() noexcept {
  return time_point(duration_cast<duration>(::now(CLOCK_REALTIME)));
}

}  // namespace _V2
}  // namespace chrono
}  // namespace std
