// Children that can be killed, memory shared with them, and deadlines.
#pragma once

#include <pthread.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <type_traits>

namespace icecore::testing {

/// Runs `work` in a forked child, which exits with the value returned, or with 70 if it throws. Deadlines rest while it
/// forks. The caller may have other threads; what they hold, the child never gets.
class child {
 public:
  explicit child(const std::function<int()>& work);
  ~child();  ///< kills it if it still runs
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  void kill(int signal) const;
  /// Waits for its end. Returns the exit status, or minus the signal that ended it. Throws if it takes longer than
  /// `limit`.
  int wait(std::chrono::seconds limit = std::chrono::seconds(60));

 private:
  pid_t pid_;
  bool ended_ = false;
};

/// A T in memory that children share. T consists of atomics and plain numbers; it is zeroed at first.
template <class T>
class shared {
 public:
  shared()
      : address_(mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    static_assert(std::is_trivially_destructible_v<T>);
    if (address_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~shared() { munmap(address_, sizeof(T)); }
  shared(const shared&) = delete;
  shared& operator=(const shared&) = delete;

  T& operator*() const noexcept { return *static_cast<T*>(address_); }
  T* operator->() const noexcept { return static_cast<T*>(address_); }

 private:
  void* address_;
};

/// Ends the whole process with a message unless it is destroyed in time, so that a test that hangs is reported. Only
/// one thread of a process may make deadlines.
class deadline {
 public:
  deadline(std::string what, std::chrono::seconds limit);
  ~deadline();
  deadline(const deadline&) = delete;
  deadline& operator=(const deadline&) = delete;

 private:
  friend class child;
  void watch();  ///< begins a thread that does
  void rest();   ///< ends it

  std::string what_;
  std::chrono::steady_clock::time_point end_;
  pthread_t waiting_;
  std::atomic<bool> over_{false};
  std::thread watcher_;
};

/// Runs `body(thread)` in `count` threads; throws on the first exception that any of them threw.
void in_threads(unsigned count, const std::function<void(unsigned)>& body);

/// Nanoseconds of a clock that all threads and processes share.
[[nodiscard]] std::int64_t ticks_ns() noexcept;

}  // namespace icecore::testing
