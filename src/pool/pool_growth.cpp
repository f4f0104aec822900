// How a pool's file grows: when a thread needs space, and ahead of need.
#include <algorithm>

#include "base/bytes.hpp"
#include "base/threads.hpp"
#include "pool/file/numa.hpp"
#include "pool/pool.hpp"

namespace icecore {

/// The size to which the file grows when it must hold `needed` bytes, if the device has room for more than these.
std::uint64_t pool::size_ahead(std::uint64_t needed) const {
  // Growing in memory costs clearing pages but no sync, so memory is taken in smaller steps.
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

/// One thread at a time calls this, since it has the lock for space. It does not queue for the lock for growing: that
/// another thread has grown the file far enough is seen without it, while that thread goes on growing.
void pool::grow_to(std::uint64_t needed) {
  for (backoff wait; size() < needed; wait.pause()) {
    const recovering_lock held(space_->growing, std::try_to_lock, [this] { recover_growth(); });
    if (!held || size() >= needed) continue;
    const std::uint64_t ahead = size_ahead(needed);
    if (ahead <= needed || !extend_ahead(ahead)) extend_file(needed, false);
  }
}

void pool::grow_ahead() noexcept {
  const std::uint64_t ahead = size_ahead(0);
  if (room() >= (ahead - size()) / 4) return;
  try {
    const recovering_lock held(space_->growing, std::try_to_lock, [this] { recover_growth(); });
    if (held && size() < ahead) extend_ahead(ahead);
  } catch (const std::exception&) {
    return;  // a thread that needs the space meets any error that is still there, and reports it
  }
}

// The steps are those of a writer that grows the file, under the same lock, so a crash leaves nothing else.
void pool::grow_in_background() noexcept {
  try {
    while (wants_growth()) {
      const std::uint64_t used_before = used_end();
      const std::uint64_t wanted = room_wanted_.load(std::memory_order_relaxed);  // relaxed: this thread writes it
      const std::uint64_t usual = size_ahead(0);
      if (usual <= size()) return;  // the device has refused more, or there are no addresses
      const std::uint64_t step = std::max(usual, used_before + wanted);
      const std::uint64_t most = capacity() / format::granule_size * format::granule_size;
      const std::uint64_t ahead = std::min(format::round_up(step, huge_pages_ ? huge_page_bytes : growth_min), most);
      if (!extend_in_pieces(ahead)) return;  // it is at least `usual`, so each turn makes the file longer
      // A quarter of the room is to last while the file grows: writers ask when half of it is left.
      constexpr std::uint64_t margin = 4;
      const std::uint64_t used = used_end() - used_before;
      // A system may suddenly give memory at a twentieth of its usual speed, and then a small room does not last.
      constexpr std::uint64_t enough = std::uint64_t{32} << 20;
      const std::uint64_t least = std::clamp(size() / 16, 2 * growth_min, enough);
      const std::uint64_t next = std::clamp(margin * used, least, growth_step_max);
      room_wanted_.store(std::max(next, wanted / 2), std::memory_order_relaxed);
    }
  } catch (const std::exception&) {
    return;  // as grow_ahead()
  }
}

/// A writer that finds no room waits for a piece and not for all. In memory a piece costs little more than its pages;
/// on a device it costs a sync, so there all of it is one. False if the device has no room.
bool pool::extend_in_pieces(std::uint64_t end) {
  const bool in_memory = durability_.medium == medium::memory;
  while (size() < end) {
    const recovering_lock held(space_->growing, [this] { recover_growth(); });
    // to where the next huge page begins: one that lies in two pieces would become small pages
    const std::uint64_t piece_end = format::round_up(size() + 1, huge_page_bytes);
    if (size() < end && !extend_ahead(in_memory ? std::min(end, piece_end) : end)) return false;
  }
  return true;
}

/// False if the device has no room for this size. Caller holds the lock for growing, here and in what follows.
bool pool::extend_ahead(std::uint64_t size) {
  try {
    extend_file(size, huge_pages_);
    return true;
  } catch (const error& e) {
    if (e.code() != errc::no_space) throw;
    // The device is nearly full, perhaps only for a while. Ask again when an eighth of what it refused is used. If each
    // segment asked, filling a device with ext4 would take twice the system time.
    size_refused_.store(this->size() + (size - this->size()) / 8, std::memory_order_relaxed);  // relaxed: a hint
    return false;
  }
}

/// What the next holder of the lock does after a process was killed while it grew the file. Either the root names the
/// new size: then the file has all of it, and is mapped and made durable (again). Or it does not: then the file may be
/// longer than the root says, and in memory it may have holes there.
void pool::recover_growth() {
  if (const std::uint64_t recorded = roots_->read().file_size; recorded > size()) extend_file(recorded, false);
  file_.shrink(size());
}

void pool::extend_file(std::uint64_t size, bool huge_pages) {
  mapping_->require(size);  // first: if this fails, nothing has changed
  persist_->verify_file_sizes();
  const bool durable = persist_->by_pages() || durability_.medium == medium::persistent_memory;
  prefer_node(file_, this->size(), size, node_);
  file_.grow(size, huge_pages);
  persist_->expect_file_size(size, persist_file_);
  if (durable) persist_->sync_file(persist_file_);
  roots_->update_both([size](format::root& r) { r.file_size = size; });  // P6
  map(size);  // last: until then no thread uses the new space; for a process killed before this, see recover_growth()
}

}  // namespace icecore
