// Pieces of an arena that were taken in vain, kept for the next who needs one. It lies in the arena itself, so that all
// who share that share it.
//
// Threads: all functions, from any thread of any process. Nobody waits: who finds another at the list goes without, a
// piece is left unused for ever, and so is the list if a process is killed while it is at it.
#pragma once

#include <atomic>

#include "index/arena.hpp"

namespace icecore::index {

class free_list {
 public:
  /// A piece, or 0. `next_of(ref)` gives what `set_next` stored in the piece.
  template <class NextOf>
  [[nodiscard]] arena_ref take(const NextOf& next_of) noexcept {
    // relaxed: only a look whether the list is worth locking
    if (first_.load(std::memory_order_relaxed) == 0 || !try_lock()) return 0;
    const arena_ref ref = first_.load(std::memory_order_relaxed);  // relaxed: inside the lock
    if (ref != 0) first_.store(next_of(ref), std::memory_order_relaxed);
    unlock();
    return ref;
  }

  /// Takes a piece in. `set_next(ref, next)` stores where the list goes on in the piece.
  template <class SetNext>
  void give(arena_ref ref, const SetNext& set_next) noexcept {
    if (!try_lock()) return;
    set_next(ref, first_.load(std::memory_order_relaxed));  // relaxed: inside the lock
    first_.store(ref, std::memory_order_relaxed);
    unlock();
  }

 private:
  // acquire, release: what the last one stored in its piece is seen
  [[nodiscard]] bool try_lock() noexcept { return !locked_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { locked_.store(false, std::memory_order_release); }

  std::atomic<bool> locked_{false};
  std::atomic<arena_ref> first_{0};
};

}  // namespace icecore::index
