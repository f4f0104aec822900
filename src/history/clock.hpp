// The store's clock: the version to which a write now belongs.
//
// The clock is a word in the pool's live page, so it survives the end of a process (the page cache survives). A limit,
// kept well ahead of it in the root, survives the end of the machine, so no version number is ever used twice.
//
// Threads: all functions from any thread, except where stated. Memory order: the clock is read and moved with
//   sequential consistency, since "linked before the clock was read" against "clock moved before the head was read" is
//   a store-load (Dekker) pattern; see history.hpp, H3.
// Invariants:
//   C1. clock < limit, and the limit was durable in the root before any version reached it.
//   C2. The clock never falls.
#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>
#include <mutex>

#include "base/locks/fence.hpp"
#include "icecore/options.hpp"
#include "pool/root/root.hpp"

namespace icecore {

class version_clock {
 public:
  version_clock(std::atomic<std::uint64_t>& word, root_pages* roots, std::uint64_t limit) noexcept
      : word_(&word), roots_(roots), limit_(limit) {}

  /// The open version.
  [[nodiscard]] version now() const noexcept { return word_->load(std::memory_order_seq_cst); }

  /// Closes the open version and returns it. O(1); one call in a million writes the root.
  version tick() {
    // acquire: pairs with the release of the thread that extends the limit, so that its root write is done (C1)
    if (word_->load(std::memory_order_relaxed) + margin >= limit_.load(std::memory_order_acquire)) [[unlikely]]
      extend_limit(now());
    const version closed = word_->fetch_add(1, std::memory_order_seq_cst);
    // H3: orders this tick before all later reads of the caller and of every thread that learns the version from it
    fence_after_rmw();
    // C1. relaxed: an assertion. Another process may have moved the clock and the limit, which then the root tells.
    assert(closed + 1 < limit_.load(std::memory_order_relaxed) || closed + 1 < roots_->read().clock_limit);
    return closed;
  }

  /// Closes all versions below `open`, which is not smaller than the open one. No other thread may write meanwhile.
  /// Raises errc::invalid_argument and moves nothing if `open` is greater than last_open. O(1): writes the root at most
  /// once.
  void advance_to(version open);

  /// How far the limit is moved at a time.
  static constexpr std::uint64_t step = 1 << 20;
  /// Threads that may pass the check in tick() before the limit moves: more than any machine runs at once.
  static constexpr std::uint64_t margin = 1 << 16;
  /// The greatest version that the clock reaches (C1 with the greatest limit).
  static constexpr version last_open = version_max - margin;

  /// Sets the limit to the one that the root has now. Only before the first tick.
  void set_limit(std::uint64_t limit) noexcept { limit_.store(limit, std::memory_order_release); }

 private:
  void extend_limit(version beyond);

  std::atomic<std::uint64_t>* word_;
  root_pages* roots_;
  std::atomic<std::uint64_t> limit_;
  std::mutex mutex_;
};

}  // namespace icecore
