// Pieces of an arena that were allocated but not used, kept for the next thread that needs one. The list lies in the
// arena itself, so all processes that share the arena share the list.
//
// Threads: all functions, from any thread of any process. No thread waits: if another thread holds the list, take()
//   returns nothing, and the piece passed to give() stays unused for ever. If a process is killed while it holds the
//   list, the list stays unused for ever.
#pragma once

#include <atomic>

#include "index/arena.hpp"

namespace icecore::index {

class free_list {
 public:
  /// A piece, or 0. `next_of(ref)` returns what `set_next` stored in the piece.
  template <class NextOf>
  [[nodiscard]] arena_ref take(const NextOf& next_of) noexcept {
    // relaxed: only shows whether the list is worth locking
    if (first_.load(std::memory_order_relaxed) == 0 || !try_lock()) return 0;
    const arena_ref ref = first_.load(std::memory_order_relaxed);  // relaxed: inside the lock
    if (ref != 0) first_.store(next_of(ref), std::memory_order_relaxed);
    unlock();
    return ref;
  }

  /// Puts a piece on the list. `set_next(ref, next)` stores in the piece where the list continues.
  template <class SetNext>
  void give(arena_ref ref, const SetNext& set_next) noexcept {
    if (!try_lock()) return;
    set_next(ref, first_.load(std::memory_order_relaxed));  // relaxed: inside the lock
    first_.store(ref, std::memory_order_relaxed);
    unlock();
  }

 private:
  // acquire, release: a thread sees what the last one stored in its piece
  [[nodiscard]] bool try_lock() noexcept { return !locked_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { locked_.store(false, std::memory_order_release); }

  std::atomic<bool> locked_{false};
  std::atomic<arena_ref> first_{0};
};

}  // namespace icecore::index
