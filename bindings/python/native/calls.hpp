// Calls that run without the GIL, how closing waits for them, and forks: what stores and clusters have in common.
#pragma once

#include <Python.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace icecore::python {

/// Tells processes apart: grows with each fork in the line of this one.
[[nodiscard]] std::uint64_t fork_generation() noexcept;

/// The calls of one object that are running without the GIL. Counted with the GIL held; waited for without it.
class running_calls {
 public:
  running_calls() = default;
  running_calls(const running_calls&) = delete;
  running_calls& operator=(const running_calls&) = delete;

  /// errc::invalid_argument if this thread is inside such a call: waiting there would be for itself.
  static void require_outside(const char* refused);
  /// Returns when none is running. The GIL is held, and given away meanwhile; the caller keeps new ones from beginning.
  void wait_until_none();

 private:
  friend class without_gil;
  void begin() noexcept;
  void end() noexcept;

  std::atomic<std::size_t> running_{0};
  bool awaited_ = false;
};

/// Gives the GIL away for the rest of the scope; what the calls belong to stays open for as long.
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

}  // namespace icecore::python
