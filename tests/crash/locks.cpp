// The C library's locks, replaced as a whole: fibers of one thread would wait for each other for ever.
#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>

#include "fibers.hpp"
#include "memory_orders.hpp"

using icecore::crash::fibers;
namespace memory_orders = icecore::crash::memory_orders;

extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using function = int (*)(pthread_mutex_t*);
  static const auto lock = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  static const auto try_lock = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_mutex_trylock"));
  if (!fibers::active()) return lock(mutex);
  fibers::point(mutex, true);
  while (try_lock(mutex) != 0) fibers::block(mutex);
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
  const int result = try_lock(mutex);
  if (result == 0) memory_orders::locked(mutex);
  return result;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  using function = int (*)(pthread_mutex_t*);
  static const auto unlock = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_mutex_unlock"));
  memory_orders::unlocked(mutex);
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

/// Time stands still for fibers; whether a wait has lasted long enough is drawn.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  using function = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
  static const auto wait = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_cond_clockwait"));
  if (!fibers::active()) return wait(condition, mutex, clock, until);
  static unsigned waits = 0;
  pthread_mutex_unlock(mutex);
  fibers::point(nullptr, true);
  pthread_mutex_lock(mutex);
  return ++waits % 4 == 0 ? ETIMEDOUT : 0;
}

}  // extern "C"
