#include "history/clock.hpp"

#include "base/raise.hpp"

namespace icecore {

void version_clock::extend_limit(version beyond) {
  const std::scoped_lock lock(mutex_);
  if (beyond + margin < limit_.load(std::memory_order_relaxed)) return;  // relaxed: written under this mutex
  if (beyond + margin + step > version_max) raise(errc::invalid_argument, "all {} versions are used up", version_max);
  const std::uint64_t limit = beyond + margin + step;
  roots_->update([&](format::root& r) { r.clock_limit = limit; });
  limit_.store(limit, std::memory_order_release);
}

void version_clock::advance_to(version open) {
  extend_limit(open);
  word_->store(open, std::memory_order_seq_cst);  // as tick(): H3
}

}  // namespace icecore
