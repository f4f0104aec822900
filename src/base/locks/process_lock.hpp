// A lock in memory that processes share. To be used with std::scoped_lock; with recovering_lock where survivors go on
// after a process was killed while it held the lock:
//
//   lock.make_robust();                                // while nobody else is there
//   const recovering_lock held(lock, [&] { ... });            // makes whole what a killed holder left half changed
//
// Threads: all functions from any thread of any process that maps it, unless they say otherwise.
// Errors: a lock that outlives no kill throws errc::poisoned from lock() and try_lock() once a process was killed
// while it held it: what it guards may be half changed. A flag beside the lock can be raised then, for those who do
// not need the lock, and who waits for it or tries it gives up then. Waiting: a holder that lives is waited for. What
// a killed one leaves reaches all who wait within some milliseconds: the C library's robust mutex wakes one of them,
// and glibc forgets the others (2.36), so each looks again by itself. Invariants:
//   K1. Once a killed holder's lock is taken, owner_died() is true until somebody has mended what the lock guards,
//       whoever is killed meanwhile. So mending must be such that it can be done again from wherever it was left.
#pragma once

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <new>

#include "base/raise.hpp"
#include "base/sanitizer.hpp"

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

  /// Raises `flag`, in the same shared memory, when lock() throws. Before anyone else is there.
  void raises(std::atomic<bool>& flag) noexcept {
    to_flag_ = reinterpret_cast<std::byte*>(&flag) - reinterpret_cast<std::byte*>(this);
  }
  /// From now on the next one to lock it is let in after a holder was killed, to mend what it guards. Before anyone
  /// else is there.
  void make_robust() noexcept { robust_ = true; }

  void lock() {
    int result = wait_a_while();
    for (; result == ETIMEDOUT; result = wait_a_while()) raise_if_flagged();
    locked(result);
  }
  /// False if somebody holds it who lives.
  [[nodiscard]] bool try_lock() {
    const int result = pthread_mutex_trylock(&mutex_);
    if (result == EBUSY) {
      // glibc (2.36) leaves a lock that nobody can have any more as taken by the first one who was told so by a try
      raise_if_flagged();
      return false;
    }
    locked(result);
    return true;
  }
  void unlock() noexcept { pthread_mutex_unlock(&mutex_); }

  /// Whether a holder was killed and nobody has mended what it left (K1). By the holder.
  [[nodiscard]] bool owner_died() const noexcept { return owner_died_; }
  /// It is whole. By the holder.
  void mark_consistent() noexcept { owner_died_ = false; }

 private:
  /// The lock, or ETIMEDOUT after some milliseconds.
  [[nodiscard]] int wait_a_while() noexcept {
    constexpr long slice_ns = 10'000'000;
    constexpr long second_ns = 1'000'000'000;
    timespec until{};
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += slice_ns;
    until.tv_sec += until.tv_nsec / second_ns;
    until.tv_nsec %= second_ns;
#if defined(ICECORE_UNDER_THREAD_SANITIZER)
    // which does not see this one call by itself
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
    // relaxed: a flag that no data goes with
    if (!robust_ && flag() != nullptr && flag()->load(std::memory_order_relaxed)) raise_poisoned();
  }

  void locked(int result) {
    if (result == 0) [[likely]]
      return;
    if (result == EOWNERDEAD && robust_) {
      owner_died_ = true;  // before the lock is one like any other: a holder killed here leaves the next one the same
      pthread_mutex_consistent(&mutex_);
      return;
    }
    // relaxed: it only ever rises, no data goes with it
    if (flag() != nullptr) flag()->store(true, std::memory_order_relaxed);
    // unlocked without having been made consistent, it can never be locked again
    if (result == EOWNERDEAD) pthread_mutex_unlock(&mutex_);
    raise_poisoned();
  }

  [[noreturn]] static void raise_poisoned() {
    raise(errc::poisoned,
          "a process that shared the store was killed while it changed what all share; close the store everywhere and "
          "open it again to recover");
  }

  pthread_mutex_t mutex_;
  std::ptrdiff_t to_flag_ = 0;  ///< bytes from here: processes map both at other addresses
  bool robust_ = false;
  bool owner_died_ = false;  ///< changed by the holder alone
};

/// Holds a lock whose killed holders survivors make up for: by `mend`, which is called while the lock is held.
class recovering_lock {
 public:
  template <typename Recover>
  recovering_lock(process_lock& lock, Recover recover) : held_(lock) {
    recover_with(recover);
  }
  /// Holds it only if nobody does who lives.
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
