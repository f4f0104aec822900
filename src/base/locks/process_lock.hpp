// A lock in memory that processes share. Use it with std::scoped_lock; or, if survivors go on after a process was
// killed while it held the lock, with recovering_lock:
//
//   lock.make_robust();                                // while no other thread or process uses it
//   const recovering_lock held(lock, [&] { ... });     // repairs what a killed holder left half changed
//
// Threads: all functions from any thread of any process that maps it, unless they say otherwise.
// Errors: after a process was killed while it held the lock, lock() and try_lock() of a lock that is not robust throw
// errc::poisoned: what the lock guards may be half changed. They then also set a flag beside the lock, if it has one,
// for threads that do not need the lock. Threads that wait for the lock or try it give up when the flag is set.
// Waiting: a thread waits as long as the holder lives. After a holder was killed, all waiting threads learn of it
// within some milliseconds: the C library's robust mutex wakes one of them and glibc (2.36) forgets the others, so each
// checks again on its own.
// Invariants:
//   K1. Once a killed holder's lock is taken, owner_died() is true until a holder has repaired what the lock guards,
//       even if more holders are killed meanwhile. So a repair must be repeatable, wherever it was interrupted.
#pragma once

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <new>

#include "base/memory/sanitizer.hpp"
#include "base/raise.hpp"

#if defined(ICECORE_UNDER_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

namespace icecore {

class process_lock {
 public:
  process_lock() {
    pthread_mutexattr_t kind;
    if (pthread_mutexattr_init(&kind) != 0) throw std::bad_alloc();
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    const int failed = pthread_mutex_init(&mutex_, &kind);
    pthread_mutexattr_destroy(&kind);
    if (failed != 0) throw std::bad_alloc();
  }
  process_lock(const process_lock&) = delete;
  process_lock& operator=(const process_lock&) = delete;

  /// Sets `flag`, in the same shared memory, when lock() or try_lock() throws. Call it before any other thread or
  /// process uses the lock.
  void raises(std::atomic<bool>& flag) noexcept {
    to_flag_ = reinterpret_cast<std::byte*>(&flag) - reinterpret_cast<std::byte*>(this);
  }
  /// From now on, after a holder was killed, the next one may take the lock and repair what it guards. Call it before
  /// any other thread or process uses the lock.
  void make_robust() noexcept { robust_ = true; }

  void lock() {
    int result = wait_a_while();
    for (; result == ETIMEDOUT; result = wait_a_while()) raise_if_flagged();
    locked(result);
  }
  /// False if a living process holds it.
  [[nodiscard]] bool try_lock() {
    const int result = pthread_mutex_trylock(&mutex_);
    if (result == EBUSY) {
      // in glibc 2.36, the first try that reports the lock as unusable leaves it taken, so later tries find it busy
      raise_if_flagged();
      return false;
    }
    locked(result);
    return true;
  }
  void unlock() noexcept { pthread_mutex_unlock(&mutex_); }

  /// Whether a holder was killed and what it left is not repaired yet (K1). Only the holder may call this.
  [[nodiscard]] bool owner_died() const noexcept { return owner_died_; }
  /// What the lock guards is repaired. Only the holder may call this.
  void mark_consistent() noexcept { owner_died_ = false; }

 private:
  /// Waits for the lock; returns ETIMEDOUT after some milliseconds.
  [[nodiscard]] int wait_a_while() noexcept {
    constexpr long slice_ns = 10'000'000;
    constexpr long second_ns = 1'000'000'000;
    timespec until{};
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += slice_ns;
    until.tv_sec += until.tv_nsec / second_ns;
    until.tv_nsec %= second_ns;
#if defined(ICECORE_UNDER_THREAD_SANITIZER)
    // ThreadSanitizer does not intercept this call
    __tsan_mutex_pre_lock(&mutex_, __tsan_mutex_try_lock);
    const int result = pthread_mutex_clocklock(&mutex_, CLOCK_MONOTONIC, &until);
    const bool has_it = result == 0 || result == EOWNERDEAD;
    __tsan_mutex_post_lock(&mutex_, __tsan_mutex_try_lock | (has_it ? 0U : __tsan_mutex_try_lock_failed), 0);
    return result;
#else
    return pthread_mutex_clocklock(&mutex_, CLOCK_MONOTONIC, &until);
#endif
  }

  [[nodiscard]] std::atomic<bool>* flag() noexcept {
    if (to_flag_ == 0) return nullptr;
    return reinterpret_cast<std::atomic<bool>*>(reinterpret_cast<std::byte*>(this) + to_flag_);
  }

  void raise_if_flagged() {
    // relaxed: a flag that guards no data
    if (!robust_ && flag() != nullptr && flag()->load(std::memory_order_relaxed)) raise_poisoned();
  }

  void locked(int result) {
    if (result == 0) [[likely]]
      return;
    if (result == EOWNERDEAD && robust_) {
      // before the lock is made consistent: if this holder is killed here, the next one gets EOWNERDEAD too
      owner_died_ = true;
      pthread_mutex_consistent(&mutex_);
      return;
    }
    // relaxed: it is only ever set and guards no data
    if (flag() != nullptr) flag()->store(true, std::memory_order_relaxed);
    // a lock that is unlocked without having been made consistent can never be locked again
    if (result == EOWNERDEAD) pthread_mutex_unlock(&mutex_);
    raise_poisoned();
  }

  [[noreturn]] static void raise_poisoned() {
    raise(errc::poisoned,
          "a process that shared the store was killed while it changed shared memory; close the store in all processes "
          "and open it again to recover");
  }

  pthread_mutex_t mutex_;
  std::ptrdiff_t to_flag_ = 0;  ///< bytes from here: processes map both at different addresses
  bool robust_ = false;
  bool owner_died_ = false;  ///< changed only by the holder
};

/// Holds a lock. If the last holder was killed, calls `recover` first, with the lock held.
class recovering_lock {
 public:
  template <typename Recover>
  recovering_lock(process_lock& lock, Recover recover) : held_(lock) {
    recover_with(recover);
  }
  /// Takes the lock only if no living process holds it.
  template <typename Recover>
  recovering_lock(process_lock& lock, std::try_to_lock_t, Recover recover) : held_(lock, std::try_to_lock) {
    if (held_) recover_with(recover);
  }
  [[nodiscard]] explicit operator bool() const noexcept { return held_.owns_lock(); }

 private:
  template <typename Recover>
  void recover_with(Recover recover) {
    process_lock& lock = *held_.mutex();
    if (!lock.owner_died()) [[likely]]
      return;
    recover();
    lock.mark_consistent();
  }

  std::unique_lock<process_lock> held_;
};

}  // namespace icecore
