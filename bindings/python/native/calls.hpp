// Calls that run without the GIL, how closing waits for them, and forks: shared by stores and clusters.
#pragma once

#include <Python.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace icecore::python {

/// Distinguishes a process from the process it was forked from: grows with each fork.
[[nodiscard]] std::uint64_t fork_generation() noexcept;

/// The calls of one object that are running without the GIL. They are counted with the GIL held, and awaited without
/// it.
class running_calls {
 public:
  running_calls() = default;
  running_calls(const running_calls&) = delete;
  running_calls& operator=(const running_calls&) = delete;

  /// errc::invalid_argument if this thread is inside such a call, because it would wait for itself.
  static void require_outside(const char* refused);
  /// In a child process: the calls of its parent's threads run there alone.
  void forget_other_process() noexcept { running_.store(0, std::memory_order_relaxed); }  // relaxed: one thread
  /// Returns when no call is running. The caller holds the GIL, which is released meanwhile, and prevents new calls.
  void wait_until_none();

 private:
  friend class without_gil;
  void begin() noexcept;
  void end() noexcept;

  std::atomic<std::size_t> running_{0};
  bool awaited_ = false;
};

/// Releases the GIL for the rest of the scope; the object of these calls stays open meanwhile.
class without_gil {
 public:
  explicit without_gil(running_calls& calls);
  ~without_gil();
  without_gil(const without_gil&) = delete;
  without_gil& operator=(const without_gil&) = delete;

 private:
  running_calls& calls_;
  PyThreadState* state_;
};

/// In a function of the caller that a thread of the library calls: the object of the call cannot be closed there.
class inside_call {
 public:
  inside_call() noexcept;
  ~inside_call();
  inside_call(const inside_call&) = delete;
  inside_call& operator=(const inside_call&) = delete;
};

}  // namespace icecore::python
