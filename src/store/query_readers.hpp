// Which processes are reading rows of kept queries: space of a dropped query is used again only when none is.
//
//   auto& mine = table.counter_of(process, is_alive);      // under the lock of kept queries
//   query_readers::begin(mine);  ...check that the query is not dropped; read its rows...  query_readers::end(mine);
//   if (table.nobody_reads(is_alive)) free(...);           // `dropped` was stored before; under that lock
//
// Why that is right: a reader counts itself and then looks whether the query is dropped; who frees has stored `dropped`
// and then looks at the counts. A full fence between the two on both sides: one of them sees the other.
// A killed process's count does not count. A process that finds no free place in the table counts itself with all
// others of that kind, and a killed one of these keeps dropped queries until the next opening.
//
// Threads: any, of any process that shares the store.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>

namespace icecore::detail {

/// Lies in the state that processes share.
struct query_readers {
  using counter = std::atomic<std::uint32_t>;  ///< of ranges over rows
  struct one_process {
    std::atomic<std::uint32_t> number{0};  ///< of the process, plus 1; 0: this place is free
    counter reading{0};
  };
  std::array<one_process, 62> processes{};
  counter of_others{0};

  using alive_function = std::function<bool(unsigned process)>;

  /// Where this process counts its ranges. Call it under the lock of kept queries: places of dead processes are taken.
  [[nodiscard]] counter& counter_of(unsigned process, const alive_function& is_alive) noexcept {
    for (one_process& p : processes) {
      const std::uint32_t owner = p.number.load(std::memory_order_relaxed);  // relaxed, here: under the lock
      if (owner == process + 1) return p.reading;
      if (owner != 0 && is_alive(owner - 1)) continue;
      p.reading.store(0, std::memory_order_relaxed);
      p.number.store(process + 1, std::memory_order_relaxed);
      return p.reading;
    }
    return of_others;
  }

  static void begin(counter& mine) noexcept {
    mine.fetch_add(1, std::memory_order_relaxed);         // relaxed: the fence orders it
    std::atomic_thread_fence(std::memory_order_seq_cst);  // see above
  }
  static void end(counter& mine) noexcept {
    mine.fetch_sub(1, std::memory_order_release);  // release: what was read is read before the space is used again
  }

  /// Under the lock of kept queries. Ranges that begin from now on see what was stored before.
  [[nodiscard]] bool nobody_reads(const alive_function& is_alive) const noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);  // see above
    // acquire: pairs with end()
    if (of_others.load(std::memory_order_acquire) != 0) return false;
    for (const one_process& p : processes) {
      const std::uint32_t owner = p.number.load(std::memory_order_relaxed);
      if (owner != 0 && p.reading.load(std::memory_order_acquire) != 0 && is_alive(owner - 1)) return false;
    }
    return true;
  }
};

}  // namespace icecore::detail
