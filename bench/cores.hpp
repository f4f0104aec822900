// The processor's cores: threads that stay on one, and what other programs take of them.
#pragma once

#include <cstdint>

namespace icecore::bench {

/// From now on, and in processes made from now on, stay_on_core() keeps a thread on a core.
void keep_threads_on_cores() noexcept;
[[nodiscard]] bool threads_are_kept_on_cores() noexcept;
/// Keeps the calling thread on the core `thread` of those that the process has; the kernel places it where there are
/// fewer cores than `threads`, or if it was not asked to. Threads that the calling one makes inherit its core.
void stay_on_core(unsigned thread, unsigned threads) noexcept;

/// How many cores others kept busy while something was measured: other programs, and other guests of the host.
class other_load {
 public:
  other_load() noexcept;
  /// Since this object was made. `own_s`: seconds of processor time that the measured work took itself.
  [[nodiscard]] double cores(double own_s) const noexcept;

 private:
  std::int64_t begin_ns_;
  double busy_s_;
};

}  // namespace icecore::bench
