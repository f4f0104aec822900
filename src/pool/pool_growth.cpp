// How a pool's file grows: for whoever needs room, and ahead of need.
#include <algorithm>

#include "base/bytes.hpp"
#include "pool/file/numa.hpp"
#include "pool/pool.hpp"

namespace icecore {

/// What the file grows to when it must hold `needed` bytes, if the device has room for more than those.
std::uint64_t pool::size_ahead(std::uint64_t needed) const {
  // Memory costs clearing it and no sync: so it is taken in smaller steps.
  const bool in_memory = durability_.medium == medium::memory;
  const std::uint64_t one_in = in_memory ? 64 : 8;
  const std::uint64_t now = size();
  // relaxed: a hint
  if (now < size_refused_.load(std::memory_order_relaxed)) return std::max(needed, now);
  const std::uint64_t step =
      format::round_up(std::clamp(now / one_in, growth_min, growth_step_max), format::granule_size);
  const std::uint64_t ahead =
      std::max(needed, std::min(now + step, capacity() / format::granule_size * format::granule_size));
  return huge_pages_ && in_memory ? format::round_up(ahead, huge_page_bytes) : ahead;
}

void pool::grow_to(std::uint64_t needed) {
  const recovering_lock held(space_->growing, [this] { recover_growth(); });
  if (size() >= needed) return;  // grown ahead meanwhile
  const std::uint64_t ahead = size_ahead(needed);
  if (ahead > needed && extend_ahead(ahead)) return;
  extend_file(needed, false);
}

void pool::grow_ahead() noexcept {
  const std::uint64_t ahead = size_ahead(0);
  if (size() - std::min(size(), used_end()) >= (ahead - size()) / 4) return;
  try {
    const recovering_lock held(space_->growing, std::try_to_lock, [this] { recover_growth(); });
    if (held && size() < ahead) extend_ahead(ahead);
  } catch (const std::exception&) {
    return;  // whoever needs the room meets the error again, if there still is one, and reports it
  }
}

/// False if the device has no room for so much. By the one who holds the lock for growing, as all that follow.
bool pool::extend_ahead(std::uint64_t size) {
  try {
    extend_file(size, huge_pages_);
    wait_when_refused_ = growth_min;
    return true;
  } catch (const error& e) {
    if (e.code() != errc::no_space) throw;
    // It is nearly full, or for a while: it is asked again when the store has taken as much of it once more.
    size_refused_.store(this->size() + wait_when_refused_, std::memory_order_relaxed);  // relaxed: a hint
    wait_when_refused_ = std::min(2 * wait_when_refused_, growth_step_max);
    return false;
  }
}

/// What a process was doing that was killed while it grew the file, by whoever takes the lock then. The root tells of
/// the new size, which the file then has as a whole, and is made durable (again); or it does not, and the file may be
/// longer, in memory with holes.
void pool::recover_growth() {
  if (const std::uint64_t told = roots_->read().file_size; told > size()) extend_file(told, false);
  file_.shrink(size());
}

void pool::extend_file(std::uint64_t size, bool huge_pages) {
  mapping_->require(size);  // first: nothing has changed then
  persist_->verify_file_sizes();
  const bool durable = persist_->by_pages() || durability_.medium == medium::persistent_memory;
  prefer_node(file_, this->size(), size, node_);
  file_.grow(size, huge_pages);
  persist_->expect_file_size(size, persist_file_);
  if (durable) persist_->sync_file(persist_file_);
  roots_->update_both([size](format::root& r) { r.file_size = size; });  // P6
  map(size);  // last: until then nobody uses what is new; of a process killed before it, see recover_growth()
}

}  // namespace icecore
