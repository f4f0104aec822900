// A lock in memory that processes share. To be used with std::scoped_lock.
//
// Threads: all functions but construction, from any thread of any process that maps it.
// Errors: lock() throws errc::poisoned once a process was killed while it held the lock: what the lock guards may be
// half changed. A flag beside the lock can be raised then, for those who do not need the lock.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <new>

#include "base/raise.hpp"

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

  void lock() {
    const int result = pthread_mutex_lock(&mutex_);
    if (result == 0) [[likely]]
      return;
    if (to_flag_ != 0) {
      auto* const flag = reinterpret_cast<std::atomic<bool>*>(reinterpret_cast<std::byte*>(this) + to_flag_);
      flag->store(true, std::memory_order_relaxed);  // relaxed: it only ever rises, no data goes with it
    }
    // unlocked without having been made consistent, it can never be locked again
    if (result == EOWNERDEAD) pthread_mutex_unlock(&mutex_);
    raise(errc::poisoned,
          "a process that shared the store was killed while it changed what all share; close the store everywhere and "
          "open it again to recover");
  }
  void unlock() noexcept { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_;
  std::ptrdiff_t to_flag_ = 0;  ///< bytes from here: processes map both at other addresses
};

}  // namespace icecore
