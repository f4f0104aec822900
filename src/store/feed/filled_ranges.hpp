// Where records were written since the store was opened: for feeds, which read what is new and not what there is.
//
// A writer's slot tells the range that it is filling (`filling`): from where it began, up to the end of its last
// complete operation. Before the writer goes to another segment, it notes that range in a list of the last `kept`
// ranges that writers have left. So the list and the slots together lead to each record once, unless a range has been
// overwritten in the list; `forgotten` then says up to which version records may be in such ranges.
//
// Threads: filling::publish() and leave() by the thread that leased the writer; the readers' functions from any thread
//   of any process. Readers take no lock, so no writer waits for one.
// Cost: a complete operation one store to a line of the writer's own; leave(), once in a segment, O(1).
// Invariants:
//   F1. The bytes of a range, up to its published end, are those of complete operations. Nothing changes in them but
//       what is atomic.
//   F2. A reader that reads the slots first and the list afterwards finds each record that was complete when it began,
//       or learns by forgotten() that it does not: a range is in the list before the slot tells the next one.
//   F3. Stamps do not decrease from the front of a range to its end (W2), and none is greater than the range's newest.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/locks/process_lock.hpp"
#include "icecore/options.hpp"
#include "pool/link.hpp"

namespace icecore {

/// The range that a writer is filling. It lies in the writer's slot.
class filling {
 public:
  struct range {
    link from = null_link;
    link to = null_link;
  };

  /// Everything before `end` belongs to complete operations. Before the lease ends.
  void publish(link end) noexcept {
    // release: who sees it sees the records before it (F1), and the range to which it belongs
    to_.store(end, std::memory_order_release);
  }
  /// From now on another range is filled, which begins at `at`.
  void begin(link at) noexcept;
  /// One range, as it was at some instant of the call. From any thread.
  [[nodiscard]] range read() const noexcept;
  /// For the writer.
  [[nodiscard]] link from() const noexcept { return from_.load(std::memory_order_relaxed); }  // relaxed: its own

 private:
  std::atomic<link> to_{null_link};  // first: it shares a line with what each operation writes
  std::atomic<link> from_{null_link};
  std::atomic<std::uint64_t> changes_{0};  // odd while the range changes
};

class filled_ranges {
 public:
  static constexpr std::uint64_t kept = 2048;

  struct range {
    link from;
    link to;
    version newest;  ///< no record in it has a greater version
  };

  /// The writer of `mine` has filled its range up to `end` and goes to another segment; `newest` is the greatest
  /// version that it has written in. Then `mine` tells the empty range at `end`.
  void leave(filling& mine, link end, version newest);
  /// Readers must not rely on ranges for versions up to `newest`: a killed writer may have left any.
  void forget(version newest) noexcept;

  /// How many ranges were left so far. Ranges 0 to count - 1 are in the list or overwritten.
  [[nodiscard]] std::uint64_t count() const noexcept {
    return count_.load(std::memory_order_acquire);  // acquire: the ranges before it were written
  }
  /// Range n; empty if it was overwritten.
  [[nodiscard]] std::optional<range> read(std::uint64_t n) const noexcept;
  /// No record of a greater version is in a range that was overwritten, or forgotten.
  [[nodiscard]] version forgotten() const noexcept { return forgotten_.load(std::memory_order_acquire); }
  /// How often forget() was called.
  [[nodiscard]] std::uint64_t restarts() const noexcept { return restarts_.load(std::memory_order_acquire); }

  [[nodiscard]] process_lock& lock() noexcept { return lock_; }

 private:
  struct entry {
    std::atomic<std::uint64_t> number{0};  // of the range, from 1; 0 while it changes
    std::atomic<link> from{null_link};
    std::atomic<link> to{null_link};
    std::atomic<version> newest{0};
  };

  void raise_forgotten(version newest) noexcept;

  process_lock lock_;  // of writers that leave ranges
  std::atomic<std::uint64_t> count_{0};
  std::atomic<version> forgotten_{0};
  std::atomic<std::uint64_t> restarts_{0};
  std::array<entry, kept> entries_{};
};

}  // namespace icecore
