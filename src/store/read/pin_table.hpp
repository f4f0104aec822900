// Counts the pins on one open store of this process, and keeps what pinned views lead into when the store is closed.
//
//   pin_table& pins = pin_table::open(core, what_views_lead_into);     // when the store is opened
//   pins.take();  ...  pins.release();                                 // pin.hpp
//   pins.retire();                          // when the core ends; the last pin gives up what views lead into
//
// Counting. A thread adds to counters in a cache line of its own, `taken` and `released`, with plain stores. Threads
// whose number is too large for a line of their own share lines and add atomically. A pin does not remember where it
// was taken: only the sums over all lines count. live() adds up all `released` first and then all `taken`, so what it
// returns is never less than the number of pins at the moment between: a pin released before that moment may be missed,
// one taken before it may not. Once a store is closed, pins only come from copying a living pin. The copy is taken
// before its original is released, and each release publishes the releasing thread's earlier takes. So when live() is 0
// there, no pin is left, and there will be none.
//
// Giving up. The thread that finds state `retired` and live() == 0 gives up what was kept. A release stores its count,
// then looks at the state; retire() stores the state, makes every thread of the process pass a memory barrier, then
// counts. So either retire() sees the release, or the release sees `retired` (Dekker). The barrier costs the closing
// thread a system call, and a release nothing. Where the kernel offers no such barrier, a release may be missed by
// both: then the next store that is opened or closed gives up what was left.
//
// After a fork the child has the counts of its parent, also of threads that it does not have: what those had pinned
// stays mapped in the child.
//
// Tables are never freed, only used again: a thread that has just released the last pin may still look at the state. A
// late look at a table in use again is harmless, because giving up counts first.
//
// Threads: open() and retire() at most once each per store; everything else from any thread.
// Invariants:
//   V1. While a pin lives, what open() was given stays in memory, and the table belongs to the pin's store.
//   V2. core() is null from retire() on: no call reaches a store's core after it has ended.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/threads.hpp"

namespace icecore::detail {

class store_core;

class [[gnu::visibility("hidden")]] pin_table {
 public:
  /// What views lead into.
  using memory = std::vector<std::shared_ptr<const void>>;

  /// A table without pins. It holds `views_lead_into` until the core and all pins have ended. Throws std::bad_alloc.
  [[nodiscard]] static pin_table& open(const store_core& core, memory views_lead_into);
  /// The core ends. If there is no pin, gives up what views lead into now; if there are, the last one does.
  void retire() noexcept;

  void take() noexcept {
    add(&line::taken, std::memory_order_relaxed);
    // the compiler may not move a read of pinned bytes before this
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  void release() noexcept {
    add(&line::released, std::memory_order_release);  // live(): all reads under this pin come before
    // the compiler may not move the look at the state before the count; the barrier of retire() orders the processor
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (state_.load(std::memory_order_relaxed) != state::open) [[unlikely]]
      release_behind_close();
  }

  /// The store's core; null once it has ended.
  [[nodiscard]] const store_core* core() const noexcept {
    return core_.load(std::memory_order_relaxed);  // relaxed: closing runs alone
  }
  /// Never less than the number of pins at some moment of the call.
  [[nodiscard]] std::uint64_t live() const noexcept;

 private:
  enum class state : std::uint8_t { unused, open, retired, giving_up };

  struct alignas(64) line {
    std::atomic<std::uint64_t> taken{0};
    std::atomic<std::uint64_t> released{0};
  };
  static constexpr unsigned own_lines = 128;
  static constexpr unsigned shared_lines = 16;

  void add(std::atomic<std::uint64_t> line::*counter, std::memory_order order) noexcept {
    const unsigned thread = thread_number();
    if (thread < own_lines) [[likely]] {
      auto& own = lines_[thread].*counter;
      own.store(own.load(std::memory_order_relaxed) + 1, order);  // only this thread writes it
    } else {
      (lines_[own_lines + thread % shared_lines].*counter).fetch_add(1, order);
    }
  }
  [[gnu::cold, gnu::noinline]] void release_behind_close() noexcept;
  void give_up_if_unpinned() noexcept;
  /// What a barrier that the kernel did not offer has left.
  static void give_up_leftovers() noexcept;

  std::atomic<state> state_{state::unused};
  std::atomic<const store_core*> core_{nullptr};
  memory kept_;                // changed by the opener, and by the thread that is giving up
  pin_table* next_ = nullptr;  // of all tables of the process
  std::array<line, own_lines + shared_lines> lines_{};
};

}  // namespace icecore::detail
