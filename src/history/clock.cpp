#include "history/clock.hpp"

#include <algorithm>
#include <cassert>

#include "base/raise.hpp"

namespace icecore {

void version_clock::extend_limit(version beyond) {
  const std::scoped_lock lock(mutex_);
  if (beyond + margin < limit_.load(std::memory_order_relaxed)) return;  // relaxed: written under this mutex
  if (beyond >= last_open) raise(errc::invalid_argument, "all {} versions are used up", last_open);
  const std::uint64_t limit = std::min(beyond + margin + step, version_max);
  std::uint64_t reached = limit;
  roots_->update_both([&](format::root& r) {                   // P6
    r.clock_limit = reached = std::max(r.clock_limit, limit);  // another process may have raised it
  });
  limit_.store(reached, std::memory_order_release);
}

void version_clock::advance_to(version open) {
  if (open > last_open) {
    raise(errc::invalid_argument, "version {} cannot be opened: the greatest possible version is {}", open, last_open);
  }
  assert(open >= now());                          // C2
  extend_limit(open - 1);                         // C1, as tick() does
  word_->store(open, std::memory_order_seq_cst);  // as tick(): H3
}

}  // namespace icecore
