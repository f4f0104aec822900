#include "store/feed/filled_ranges.hpp"

#include <mutex>

namespace icecore {

// The fences order the stores to from and to between the two changes of the counter, and the loads between its two
// loads: a reader that finds the counter even and the same before and after has a range that was whole.
void filling::begin(link at) noexcept {
  const std::uint64_t n = changes_.load(std::memory_order_relaxed);  // relaxed: only the leased thread changes it
  changes_.store(n + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  from_.store(at, std::memory_order_relaxed);
  to_.store(at, std::memory_order_relaxed);
  changes_.store(n + 2, std::memory_order_release);  // release: the range that was left is in the list (F2)
}

filling::range filling::read() const noexcept {
  for (;;) {
    const std::uint64_t before = changes_.load(std::memory_order_acquire);
    const range found{from_.load(std::memory_order_relaxed), to_.load(std::memory_order_acquire)};
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && changes_.load(std::memory_order_relaxed) == before) return found;
  }
}

void filled_ranges::raise_forgotten(version newest) noexcept {
  version now = forgotten_.load(std::memory_order_relaxed);  // relaxed: the exchange decides
  while (now < newest && !forgotten_.compare_exchange_weak(now, newest, std::memory_order_acq_rel)) {
  }
}

void filled_ranges::leave(filling& mine, link end, version newest) {
  const link from = mine.from();
  if (from != end) {
    // A holder that was killed left an entry half written, and perhaps a count that does not cover it: its writer is
    // recovered as a dead one, and that forgets all ranges.
    const recovering_lock one_at_a_time(lock_, [] {});
    const std::uint64_t n = count_.load(std::memory_order_relaxed);  // relaxed: under the lock
    entry& e = entries_[n % kept];
    // before it is overwritten: a reader that misses it then reads this
    raise_forgotten(e.newest.load(std::memory_order_relaxed));
    e.number.store(0, std::memory_order_release);  // release: what is forgotten
    std::atomic_thread_fence(std::memory_order_release);
    e.from.store(from, std::memory_order_relaxed);
    e.to.store(end, std::memory_order_relaxed);
    e.newest.store(newest, std::memory_order_relaxed);
    e.number.store(n + 1, std::memory_order_release);  // release: the range's fields, and the records in it
    count_.store(n + 1, std::memory_order_release);
  }
  mine.begin(end);
}

std::optional<filled_ranges::range> filled_ranges::read(std::uint64_t n) const noexcept {
  const entry& e = entries_[n % kept];
  const std::uint64_t before = e.number.load(std::memory_order_acquire);  // acquire: pairs with leave()
  const range found{e.from.load(std::memory_order_relaxed), e.to.load(std::memory_order_relaxed),
                    e.newest.load(std::memory_order_relaxed)};
  std::atomic_thread_fence(std::memory_order_acquire);  // the loads above come before the next one
  if (before != n + 1 || e.number.load(std::memory_order_relaxed) != before) return std::nullopt;
  return found;
}

void filled_ranges::forget(version newest) noexcept {
  raise_forgotten(newest);
  restarts_.fetch_add(1, std::memory_order_release);  // release: who sees it sees what is forgotten
}

}  // namespace icecore
