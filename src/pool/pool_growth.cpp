// Where the used part of a pool's file ends, and how the file grows: when a thread needs space, and ahead of need.
#include <algorithm>

#include "base/bytes.hpp"
#include "base/threads.hpp"
#include "pool/file/numa.hpp"
#include "pool/pool.hpp"

namespace icecore {

// ---- The end of the used part ----

segment pool::take_end(std::uint64_t size, std::uint32_t magic, const std::function<void(std::uint64_t)>& claim) {
  // relaxed: only changed under the lock
  const std::uint64_t offset = space_->used_end.load(std::memory_order_relaxed);
  if (offset + size > this->size()) grow_to(offset + size);
  // P4: a stale end, as after a write that the device lost, would give a segment in use out again.
  if (logged_end_ != nullptr && !begins_with_zeros(offset)) {
    raise(errc::damaged,
          "{}: damaged at byte {} (index): the end of the store noted here is too low: a segment lies behind it",
          origin(), link_offset(logged_end_at_));
  }
  populate(offset, populated_of(size));
  space_->giving_out.begin(offset, size, size);
  claim(offset);
  const segment taken = format_segment(make_link(number_, offset), size, magic);
  move_end(offset + size);
  space_->giving_out.end();
  return taken;
}

/// The noted end is durable on return: it is before anything is put into the segment, so that clear_behind_end() never
/// meets a segment that has something in it.
void pool::move_end(std::uint64_t to) noexcept {
  space_->used_end.store(to, std::memory_order_relaxed);  // relaxed: as above
  if (logged_end_ == nullptr) return;
  logged_end_->store(codec_.encode(to, logged_end_at_), std::memory_order_relaxed);
  persist_->flush(logged_end_, sizeof *logged_end_);
  persist_->fence();
}

/// Whether nothing was put into a segment here: it would start with a record, a node or another thing that is not zero.
bool pool::begins_with_zeros(std::uint64_t offset) const noexcept {
  constexpr std::uint64_t looked_at = format::record_padding_max + sizeof(std::uint64_t);
  return all_zero(base_ + offset + sizeof(format::segment_header), looked_at);
}

void pool::use_up_to(std::uint64_t end) {
  const recovering_lock lock(space_->lock, [this] { settle_given_out(); });
  move_end(std::max(end, used_end()));
}

void pool::settle() {
  const recovering_lock lock(space_->lock, [this] { settle_given_out(); });
}

/// The last holder of the lock was killed. What it was giving out may have an owner by its claim, which will look for
/// it (logged_segments::recover(), query_space). So it counts as given out, and what is half written of its headers
/// goes: that would be damage to the next opening, if others go on and close the store. Without an owner it is a hole,
/// or a segment that nothing leads to: the next opening that reads all headers has it.
void pool::settle_given_out() noexcept {
  const auto [offset, size, all] = space_->giving_out.get();
  if (size == 0) return;
  const auto clear_half = [&](std::uint64_t at) {
    const link header = make_link(number_, at);
    if (!valid_header(header, header_of(header).magic)) clear_header(header);
  };
  clear_half(offset);
  if (all > size) clear_half(offset + size);
  persist_->fence();
  if (offset + size > used_end()) move_end(offset + size);
  space_->giving_out.end();
}

void pool::clear_behind_end() noexcept {
  const std::uint64_t end = used_end();
  if (end + format::granule_size > size() || !begins_with_zeros(end)) return;
  const link at = make_link(number_, end);
  // zeros too: an opening that was killed may have stored them without flushing them
  clear_header(at);
  persist_->fence();
}

void pool::clear_unused(const segment& claimed) {
  // whoever allocates this space moves the end under the lock, behind its header
  const recovering_lock lock(space_->lock, [this] { settle_given_out(); });
  if (link_offset(claimed.end()) <= used_end() || link_offset(claimed.end()) > size()) return;
  clear_header(claimed.offset);
  persist_->fence();
}

// ---- Growth ----

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
    if (!extend_ahead(ahead)) extend_file(needed, false);
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
