// A full fence right behind a sequentially consistent read-modify-write.
#pragma once

#include <atomic>

namespace icecore {

/// Orders a read-modify-write before it with all accesses after it, not only with the sequentially consistent ones as
/// the language does. Costs nothing on x86, where the locked instruction of the read-modify-write is a full fence.
inline void fence_after_rmw() noexcept {
#if defined(__x86_64__)
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace icecore
