// A lock that readers do not take: they read, and afterwards check that no thread wrote meanwhile.
//
//   const std::uint64_t seen = n.lock.peek();      // is_locked(seen): a writer is inside
//   const auto value = n.field.load();             // field is a guarded<T>; may be half of a change
//   if (!n.lock.validate(seen)) start_again();     // true: value was n's state at one instant
//
//   if (!n.lock.try_upgrade(seen, process)) start_again();  // a writer: what was read still holds, and no other
//                                                           // thread writes now
//   n.field.store(changed);
//   n.lock.unlock();
//
// After V. Leis, F. Scheibner, A. Kemper, T. Neumann: The ART of Practical Synchronization, DaMoN 2016, with the lock
// coupling of that paper: read the child's word, then validate the parent; then the child was the right one when its
// word was read.
//
// The word is even when free, odd while a writer is inside, and grows by one at each step. While a writer is inside,
// the upper bits of the same word are the number of its process. So whenever a writer is killed its process is known,
// and a waiting thread can find out whether the writer is still alive.
//
// Memory model. A reader must never validate successfully after it saw a writer's store. H.-J. Boehm (Can seqlocks get
// along with programming language memory models?, MSPC 2012) ensures that with fences. Here the data itself does, which
// every sanitizer understands and which costs nothing on x86: stores of guarded fields release and loads acquire. If a
// load reads from a store made inside the lock, the writer's locking happens before everything after that load, so
// validate() reads a word at least as new as the writer's and fails.
//
// Reads may be torn until they are validated, so using them before that must be harmless: indices are in range,
// references lead to nodes (which are never freed), links are links.
#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>

#include "base/threads.hpp"

namespace icecore::index {

/// A field that is read without the lock and written only inside it (or before its node is published).
template <class T>
class guarded {
 public:
  guarded() noexcept = default;
  explicit guarded(T value) noexcept : value_(value) {}
  // Acquire and release: see "Memory model" at the top of this file.
  [[nodiscard]] T load() const noexcept { return value_.load(std::memory_order_acquire); }
  void store(T value) noexcept { value_.store(value, std::memory_order_release); }

  static_assert(std::atomic<T>::is_always_lock_free);

 private:
  std::atomic<T> value_{};
};

class optimistic_lock {
 public:
  /// Processes that a locked word can tell apart.
  static constexpr std::uint64_t holders_max = std::uint64_t{1} << 16;

  /// The current word, which may be locked.
  // Acquire: the loads that follow see all that the last writer stored.
  [[nodiscard]] std::uint64_t peek() const noexcept { return word_.load(std::memory_order_acquire); }
  [[nodiscard]] static constexpr bool is_locked(std::uint64_t word) noexcept { return (word & 1U) != 0; }

  /// The number of the process that is inside; only for a locked word.
  [[nodiscard]] static constexpr unsigned holder(std::uint64_t word) noexcept {
    return static_cast<unsigned>(word >> holder_shift);
  }

  /// Whether no writer has been inside since peek() returned `seen`, which is free.
  // Relaxed: the guarded loads before it acquire, so the word cannot be older than they are.
  [[nodiscard]] bool validate(std::uint64_t seen) const noexcept {
    return word_.load(std::memory_order_relaxed) == seen;
  }

  /// Locks for a process if no writer has been inside since peek() returned `seen`, which is free.
  [[nodiscard]] bool try_upgrade(std::uint64_t seen, unsigned process) noexcept {
    const std::uint64_t mine = (seen + 1) | std::uint64_t{process} << holder_shift;
    // Acquire: the holder sees what the last writer stored. The stores inside release, so they stay behind this one.
    // seq_cst: for a holder that reads the clock inside, also with seq_cst. Suppose that a reader's tick, or the tick
    // of the thread from which it learned a version, came after that clock load. Behind the tick there is a fence, so
    // the reader finds the word locked (history/history.hpp, H3).
    return word_.compare_exchange_strong(seen, mine, std::memory_order_seq_cst, std::memory_order_relaxed);
  }

  void unlock() noexcept {
    assert(is_locked(word_.load(std::memory_order_relaxed)));  // relaxed: as below
    // Relaxed load: this thread wrote the word last. Release: a thread that reads the new word sees what was stored
    // inside.
    word_.store((word_.load(std::memory_order_relaxed) & changes_mask) + 1, std::memory_order_release);
  }

 private:
  static constexpr unsigned holder_shift = 48;
  static_assert(holders_max - 1 == ~std::uint64_t{0} >> holder_shift, "a process's number has the upper bits alone");
  static constexpr std::uint64_t changes_mask = (std::uint64_t{1} << holder_shift) - 1;

  std::atomic<std::uint64_t> word_{0};
};

/// Holds a lock that was upgraded; unlocks at the end of its scope.
class write_guard {
 public:
  write_guard() noexcept = default;  ///< holds nothing
  write_guard(optimistic_lock& lock, std::uint64_t seen, unsigned process) noexcept {
    (void)try_upgrade(lock, seen, process);
  }
  ~write_guard() {
    if (lock_ != nullptr) lock_->unlock();
  }
  write_guard(const write_guard&) = delete;
  write_guard& operator=(const write_guard&) = delete;

  [[nodiscard]] bool try_upgrade(optimistic_lock& lock, std::uint64_t seen, unsigned process) noexcept {
    if (lock.try_upgrade(seen, process)) lock_ = &lock;
    return holds();
  }
  [[nodiscard]] bool holds() const noexcept { return lock_ != nullptr; }

 private:
  optimistic_lock* lock_ = nullptr;
};

}  // namespace icecore::index
