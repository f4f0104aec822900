// The C library's locks, replaced as a whole: fibers of one thread would wait for each other for ever.
#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>
#include <cstdint>
#include <unordered_map>

#include "fibers.hpp"
#include "memory_orders.hpp"

using icecore::crash::fibers;
namespace memory_orders = icecore::crash::memory_orders;

namespace {

/// Which fiber holds a mutex that its holder may take again: to the C library all fibers are one thread, which may.
struct holder {
  std::uint8_t fiber;
  unsigned times;
};
std::unordered_map<const pthread_mutex_t*, holder> held_again;

bool is_recursive(const pthread_mutex_t* mutex) noexcept {
  constexpr int type_bits = 3;
  return (mutex->__data.__kind & type_bits) == PTHREAD_MUTEX_RECURSIVE_NP;
}

int try_for_fiber(pthread_mutex_t* mutex, int (*try_lock)(pthread_mutex_t*)) noexcept {
  if (!fibers::active() || !is_recursive(mutex)) return try_lock(mutex);
  const auto found = held_again.find(mutex);
  if (found != held_again.end() && found->second.fiber != fibers::current()) return EBUSY;
  const int result = try_lock(mutex);
  if (result == 0) ++held_again.try_emplace(mutex, holder{fibers::current(), 0}).first->second.times;
  return result;
}

void unlocked_by_fiber(const pthread_mutex_t* mutex) noexcept {
  const auto found = held_again.find(mutex);
  if (found != held_again.end() && --found->second.times == 0) held_again.erase(found);
}

}  // namespace

extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using function = int (*)(pthread_mutex_t*);
  static const auto lock = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  static const auto try_lock = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_mutex_trylock"));
  if (!fibers::active()) return lock(mutex);
  fibers::point(mutex, true);
  while (try_for_fiber(mutex, try_lock) != 0) fibers::block(mutex);
  memory_orders::locked(mutex);
  return 0;
}

/// Time stands still for fibers: whoever waits is let in, or the schedule has no next step.
int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* until) noexcept {
  using function = int (*)(pthread_mutex_t*, clockid_t, const timespec*);
  static const auto lock = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_mutex_clocklock"));
  return fibers::active() ? pthread_mutex_lock(mutex) : lock(mutex, clock, until);
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  using function = int (*)(pthread_mutex_t*);
  static const auto try_lock = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_mutex_trylock"));
  if (fibers::active()) fibers::point(mutex, true);
  const int result = try_for_fiber(mutex, try_lock);
  if (result == 0) memory_orders::locked(mutex);
  return result;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  using function = int (*)(pthread_mutex_t*);
  static const auto unlock = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_mutex_unlock"));
  memory_orders::unlocked(mutex);
  if (fibers::active()) unlocked_by_fiber(mutex);
  const int result = unlock(mutex);
  if (fibers::active()) fibers::wake(mutex);
  return result;
}

// Waking without a reason is allowed: whoever waits looks again.
int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  using function = int (*)(pthread_cond_t*, pthread_mutex_t*);
  static const auto wait = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_cond_wait"));
  if (!fibers::active()) return wait(condition, mutex);
  pthread_mutex_unlock(mutex);
  fibers::point(nullptr, true);
  return pthread_mutex_lock(mutex);
}

/// Time stands still for fibers; whether a wait has lasted long enough is counted.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  using function = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
  static const auto wait = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_cond_clockwait"));
  if (!fibers::active()) return wait(condition, mutex, clock, until);
  pthread_mutex_unlock(mutex);
  fibers::point(nullptr, true);
  pthread_mutex_lock(mutex);
  return fibers::limit_is_over() ? ETIMEDOUT : 0;
}

}  // extern "C"
