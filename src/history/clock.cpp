#include "history/clock.hpp"

#include "base/raise.hpp"

namespace icecore {

void version_clock::extend_limit() {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t clock =
      word_->load(std::memory_order_relaxed);  // relaxed: exactness is not needed, C1 has margin
  if (clock + margin < limit_.load(std::memory_order_relaxed)) return;  // relaxed: written under this mutex
  if (clock + margin + step > version_max) raise(errc::invalid_argument, "all {} versions are used up", version_max);
  const std::uint64_t limit = clock + margin + step;
  roots_->update([&](format::root& r) { r.clock_limit = limit; });
  limit_.store(limit, std::memory_order_release);
}

}  // namespace icecore
