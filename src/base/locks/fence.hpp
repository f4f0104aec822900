// A full fence directly after a sequentially consistent read-modify-write.
#pragma once

#include <atomic>

namespace icecore {

/// Orders a read-modify-write before it with all later accesses, while the language orders it only with sequentially
/// consistent ones. Costs nothing on x86, where the locked instruction of the read-modify-write is a full fence.
inline void fence_after_rmw() noexcept {
#if defined(__x86_64__)
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace icecore
