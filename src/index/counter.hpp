// A count that many threads add to and few read.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace icecore::index {

/// Threads: all functions. Cost: add() is one atomic addition on a line that threads rarely share.
class spread_counter {
 public:
  void add(std::uint64_t n) noexcept {
    // Stacks are megabytes apart, so the frame's address distinguishes threads without the call that a thread-local
    // needs.
    const auto stack = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) >> 20;
    // Relaxed: a statistic, it orders nothing.
    parts_[(stack * 0x9E3779B97F4A7C15U) >> 60].value.fetch_add(n, std::memory_order_relaxed);
  }

  /// Exact if no thread adds meanwhile.
  [[nodiscard]] std::uint64_t sum() const noexcept {
    std::uint64_t sum = 0;
    for (const part& p : parts_) sum += p.value.load(std::memory_order_relaxed);  // relaxed: as above
    return sum;
  }

 private:
  struct alignas(64) part {
    std::atomic<std::uint64_t> value{0};
  };
  std::array<part, 16> parts_;
};

}  // namespace icecore::index
