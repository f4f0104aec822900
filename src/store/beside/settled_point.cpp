#include "store/beside/settled_point.hpp"

#include <algorithm>
#include <exception>
#include <new>

namespace icecore::detail {

settled_point::settled_point(pool_set& in, const version_clock& clock, writer_set& writers, const durable_point* synced,
                             version settled)
    : pool_(&in), clock_(&clock), writers_(&writers), synced_(synced) {
  format::live_page& live = pool_->live();
  // relaxed, before the fence: a reader that sees any later word sees that these belong to no epoch (B3)
  live.settled_epoch.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  live.settled.store(0, std::memory_order_relaxed);
  store_ends();  // also where no version is closed yet: fill ends may vouch for records of the open one
  publish(settled);
  live.settled_epoch.store(pool_->roots().read().epoch, std::memory_order_release);  // release: with all of the above
}

void withhold_settled(const pool_set& in) noexcept {
  // relaxed: nothing else is published
  in.live().settled_epoch.store(in.roots().read().epoch | format::settled_withheld, std::memory_order_relaxed);
}

void settled_point::publish(version settled) noexcept {
  const std::scoped_lock lock(mutex_);
  publish_locked(settled);
}

void settled_point::publish_locked(version settled) noexcept {
  if (synced_ != nullptr) settled = std::min(settled, synced_->up_to());
  if (settled <= published_) return;
  published_ = settled;
  store_ends();
  pool_->live().settled.store(settled, std::memory_order_release);  // release: B1
}

void settled_point::publish_ends() noexcept {
  const std::scoped_lock lock(mutex_);
  store_ends();
  std::atomic_thread_fence(std::memory_order_release);  // B5: with the root that is stored next
}

void settled_point::store_ends() noexcept {
  // relaxed: ordered by what the caller stores next (B2, B5)
  for (const pool* p : pool_->files()) p->live().settled_end.store(p->used_end(), std::memory_order_relaxed);
}

void settled_point::look() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) look_locked();
}

void settled_point::look_at_once() noexcept {
  const std::scoped_lock lock(mutex_);
  look_locked();
}

void settled_point::look_locked() noexcept {
  try {
    for (int of = 0; of < 2; ++of) {  // one that was begun before more versions were closed, and one of these
      if (!under_way_) {
        if (clock_->now() - 1 <= published_) return;
        under_way_.emplace(*clock_, *writers_);
      }
      if (!under_way_->is_done()) return;
      publish_locked(under_way_->open() - 1);
      under_way_.reset();
    }
  } catch (const std::bad_alloc&) {  // the next look tries again
    under_way_.reset();
  }
}

/// A write of a killed process never ends by itself, and perhaps nobody else ever waits for it.
void settled_point::recover_dead() noexcept {
  try {
    {
      const std::unique_lock lock(mutex_, std::try_to_lock);
      if (!lock || !under_way_) return;
    }
    writers_->recover_dead_writers();
  } catch (const std::exception&) {  // the store is poisoned: its next call says why
  }
}

}  // namespace icecore::detail
