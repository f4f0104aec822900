#include "store/write/writer.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/locks/looks.hpp"
#include "base/raise.hpp"
#include "base/threads.hpp"
#include "icecore/error.hpp"
#include "index/btree/optimistic_lock.hpp"

namespace icecore {

void writer::change_segment(std::uint64_t bytes) const {
  // looked up each time: the thread may have moved to a core of another node
  const std::uint16_t in = pool_->number_for(number_);
  const version newest = slot_->last_version.load(std::memory_order_relaxed);  // relaxed: this thread has the writer
  // before the segment can become another writer's: a range that it fills there begins behind this one
  left_->leave(slot_->filled, slot_->tail.position, newest);
  slot_->tail = all_->source().change(number_, slot_->tail, slot_->totals, newest, bytes, in);
  slot_->filled.begin(slot_->tail.position);
}

void writer::reserve(std::uint64_t bytes) const {
  if (slot_->tail.position + bytes > slot_->tail.in.end()) change_segment(bytes);
}

std::uint32_t writer::copy_large(link at, record_layout layout, std::string_view value) const {
  const link to = at + layout.value_offset();
  if (value.size() < pool::written_value_size) {
    std::memcpy(pool_->at(to), value.data(), value.size());
    return crc32c(0, value.data(), value.size());
  }
  return copy_large(at, layout, value_parts({&value, 1}));
}

std::uint32_t writer::copy_large(link at, record_layout layout, const value_parts& value) const {
  try {
    return pool_->of(at).store_value(at + layout.value_offset(), value.all());
  } catch (...) {
    rewind(at, layout);
    throw;
  }
}

void writer::rewind(link last, record_layout layout) const noexcept {
  std::byte* at = pool_->at(last);
  if (layout.value_size < pool::written_value_size) {
    std::memset(at, 0, layout.size());
  } else {
    pool_->of(last).clear_value(last, layout.size());
  }
  slot_->tail.position = slot_->position_before;
  if (pool_->recovery_mode() != durability::operation) return;
  pool_->persist().flush(at, layout.size());
  try {
    pool_->persist().sync();
  } catch (...) {  // the store is poisoned, or no memory was left to report it: no record will follow
  }
}

writer_set::writer_set(pool_set& from, index::arena& memory, state& shared)
    : pool_(&from),
      shared_(&shared),
      scanned_{scanned_segments(from, memory, shared.open_lists[0]),
               scanned_segments(from, memory, shared.open_lists[1])},
      poisoner_(from),
      memory_(&memory),
      process_(shared.processes.fetch_add(1, std::memory_order_relaxed)) {  // relaxed: it need only be unique
  constexpr unsigned apart = 16;                                            // most processes have no more threads
  first_ = process_ * apart % writers_max;
  constexpr unsigned processes_max = 1 << (64 - writer_slot::process_shift);
  static_assert(processes_max <= index::optimistic_lock::holders_max, "locks of the index tell as many apart");
  if (process_ >= processes_max) {
    raise(errc::locked,
          "{}: {} processes have shared the store since it was opened, which is the maximum; close it in all processes "
          "and open it again",
          pool_->file().path().native(), processes_max);
  }
  memory_->hold(process_);
}

void writer_set::commit_last(const durable_heads& heads) noexcept {
  for (writer_slot& slot : shared_->slots) heads.commit_durably(std::exchange(slot.pending, {}));
}

std::vector<segment_tail> writer_set::segment_tails() const {
  std::vector<segment_tail> all;
  std::vector<link> open;
  for (const writer_slot& slot : shared_->slots) {
    if (slot.tail.in.size == 0) continue;
    all.push_back(slot.tail);
    open.push_back(slot.tail.in.offset);
  }
  std::ranges::sort(open);
  source().for_each_left([&](const segment_tail& p) {
    if (!std::ranges::binary_search(open, p.in.offset)) all.push_back(p);
  });
  return all;
}

bool writer_set::is_alone() const noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // a process that is not counted yet will find the store closed
  const unsigned processes = shared_->processes.load(std::memory_order_relaxed);  // relaxed: after the fence
  for (unsigned p = 0; p < processes; ++p) {
    if (p != process_ && memory_->is_held(p)) return false;
  }
  return true;
}

void writer_set::prepare_generation(std::span<const segment_tail> with) {
  scanned_segments& next = scanned_of(generation() + 1);
  next.clear();
  for (const segment_tail& each : with) next.put(each);
}

void writer_set::begin_generation(std::uint64_t number, version newest) noexcept {
  shared_->totals_before.add(totals());
  shared_->counts_before.add(counts());
  shared_->filled.forget(newest);  // before the slots: who finds them empty learns that ranges do not lead to all (F2)
  for (writer_slot& slot : shared_->slots) {
    slot.tail = {};
    slot.position_before = null_link;
    slot.totals = {};
    slot.counts = {};
    slot.pending = {};
    slot.filled.begin(null_link);
  }
  // release: with all of the above. seq_cst against who locks a generation, and looks whether it still is this one
  shared_->generation.store(number, std::memory_order_seq_cst);
}

record_totals writer_set::totals() const noexcept {
  record_totals sum;
  for (const writer_slot& slot : shared_->slots) sum.add(slot.totals);
  return sum;
}

write_counts writer_set::counts() const noexcept {
  write_counts sum;
  for (const writer_slot& slot : shared_->slots) sum.add(slot.counts);
  return sum;
}

writer_set::traffic writer_set::since_opening() const noexcept {
  record_totals records = shared_->totals_before;
  records.add(totals());
  write_counts other = shared_->counts_before;
  other.add(counts());
  return {other.key_bytes + records.value_bytes, records.record_bytes};
}

bool writer_set::none_since(version open) const noexcept {
  // Most writers were never leased, and looking at all of them costs more than a find.
  for (unsigned first = 0; first < writers_max; first += 64) {
    // relaxed: who knows of a write knows of the bit (W7)
    for (std::uint64_t bits = shared_->ever_leased[first / 64].load(std::memory_order_relaxed); bits != 0;
         bits &= bits - 1) {
      const writer_slot& slot = shared_->slots[first + static_cast<unsigned>(std::countr_zero(bits))];
      // acquire, and in this order: a thread that knows of a write has seen what came after its writer was leased. So
      // here the sequence is odd, or so new that the write's count() is seen too, because the end of the lease releases
      // it. Therefore the version may be relaxed.
      if (writer_slot::leased(slot.sequence.load(std::memory_order_acquire))) return false;
      if (slot.last_version.load(std::memory_order_relaxed) >= open) return false;
    }
  }
  return true;
}

writer_set::gate::gate(writer_set& set)
    : set_(&set), only_one_(set.shared_->gate, [&] {
        if (set.complete_) set.complete_();
        open(*set.shared_);
      }) {
  // seq_cst against the exchange in writer_lease: either the writer sees the gate closed or we see the writer leased
  set.shared_->gate_closed.fetch_or(is_shut, std::memory_order_seq_cst);
  set.shared_->gates_shut.fetch_add(1, std::memory_order_relaxed);  // a count
  try {
    for (const writer_slot& slot : set.shared_->slots) wait_for(slot);
  } catch (...) {
    open(*set.shared_);
    throw;
  }
}

void writer_set::gate::open(state& of) noexcept {
  // release: a thread that finds the gate open sees what was done under it
  of.gate_closed.fetch_and(static_cast<std::uint8_t>(~is_shut), std::memory_order_release);
}

void writer_set::gate::wait_for(const writer_slot& slot) {
  const std::uint64_t seen = slot.sequence.load(std::memory_order_seq_cst);
  if (!writer_slot::leased(seen)) return;
  backoff wait;
  for (unsigned rounds = 1; slot.sequence.load(std::memory_order_acquire) == seen; ++rounds) {
    wait.pause();
    if (rounds % rounds_between_looks == 0) set_->look_after(writer_slot::process(seen));
  }
}

void writer_set::look_after(unsigned process) {
  if (memory_->is_held(process)) return;
  recover_dead_writers();
}

void writer_set::poisoner::raise_owner_died() const {
  pool_->persist().poison("another process that shared the store was killed during a write or a tag");
  pool_->persist().raise_poisoned();
}

void writer_set::recover_dead_writers() {
  // acquire: sees what the killed process did. Its last stores are there: the kernel releases its lock when it is gone.
  const auto of_dead = [&](const writer_slot& slot) {
    return is_of_dead(slot.sequence.load(std::memory_order_acquire));
  };
  if (std::ranges::none_of(shared_->slots, of_dead)) return;
  const recovering_lock one_at_a_time(shared_->recovering, [] {});  // what a killed holder began is done again
  // acquire: the killed process had met the gate open, so whoever had shut it reads no slot any more. Threads of this
  // process learn that from the gate itself.
  static_cast<void>(shared_->gate_closed.load(std::memory_order_acquire));
  for (unsigned i = 0; i < writers_max; ++i) {
    writer_slot& slot = shared_->slots[i];
    if (!of_dead(slot)) continue;
    recovery().roll_forward(i, slot);
    // It may have been killed between two steps of a change of its segment. Its records are stamped at most with the
    // version that is open now.
    shared_->filled.forget(pool_->live().clock.load(std::memory_order_seq_cst));
    slot.filled.begin(slot.tail.position);
    // relaxed: only the holder of the lock changes it. release: the next holder, and the gate, see what was done (W1)
    slot.sequence.store(slot.sequence.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
}

// Another thread may be in roll_forward() meanwhile. That one looks for the index pairs of what the writer made, so it
// waits for the leaf's lock, which the caller holds; and no thread leases the writer before roll_forward() has
// returned.
//
// A reader may still look at the index when a later generation takes the writes. The change has waited until all dead
// writers were recovered (W5), so those that are dead now never wrote in this index. If the generation changes in here,
// roll_back() finds what roll_forward() has left: each entry is in the index, or is zero.
void writer_set::roll_back_dead_writers(const std::function<bool(std::string_view key, link entry)>& never_shown) {
  if (generation() != used_in_) return;
  for (unsigned i = 0; i < writers_max; ++i) {
    // acquire: as recover_dead_writers()
    if (is_of_dead(shared_->slots[i].sequence.load(std::memory_order_acquire))) recovery_->roll_back(i, never_shown);
  }
}

/// The flag can be left, and what complete_ knows: all else that is done under the gate is done by a writer, or under
/// other locks.
void writer_set::open_gate_of_dead() {
  if (!shared_->gate.try_lock()) return;
  const std::unique_lock<process_lock> held(shared_->gate, std::adopt_lock);
  if (!shared_->gate.owner_died()) return;
  if (complete_) complete_();
  gate::open(*shared_);
  shared_->gate.mark_consistent();
}

writer_set::gate::~gate() { open(*set_->shared_); }

std::uint64_t writer_set::operations() const noexcept {
  std::uint64_t sum = 0;
  for (const writer_slot& slot : shared_->slots) {
    // relaxed: a count
    const std::uint64_t sequence = slot.sequence.load(std::memory_order_relaxed) & writer_slot::count_mask;
    sum += (sequence + 1) / 2 + slot.batched_keys.load(std::memory_order_relaxed);
  }
  return sum;
}

void writer_set::slow_down(std::uint64_t operations_max) noexcept {
  // relaxed: a writer that sees the bit sooner than the number, or later, naps once more or not
  shared_->operations_max.store(operations_max, std::memory_order_relaxed);
  if (!are_slow()) shared_->gate_closed.fetch_or(is_slow, std::memory_order_relaxed);
}

void writer_set::end_slow() noexcept {
  // relaxed: nothing is told by it
  if (are_slow()) shared_->gate_closed.fetch_and(static_cast<std::uint8_t>(~is_slow), std::memory_order_relaxed);
}

void writer_set::await_turn() {
  unsigned naps = 0;
  while (are_slow() && !writer_lease::may_begin(*this, naps)) {
  }
}

/// Naps once if it is slow and there were enough operations.
bool writer_lease::may_begin(writer_set& set, unsigned& naps) noexcept {
  constexpr std::chrono::microseconds nap(500);
  writer_set::state& all = *set.shared_;
  // relaxed: hints, the lease decides
  const std::uint8_t gate = all.gate_closed.load(std::memory_order_relaxed);
  if ((gate & writer_set::is_shut) != 0) return false;
  if ((gate & writer_set::is_slow) == 0 || naps >= writer_set::naps_max) return true;
  if (set.operations() < all.operations_max.load(std::memory_order_relaxed)) return true;
  ++naps;
  all.naps.fetch_add(1, std::memory_order_relaxed);
  std::this_thread::sleep_for(nap);
  return false;
}

unsigned writer_lease::lease_any(writer_set& set, unsigned own, bool through_gate) {
  backoff wait;
  unsigned naps = 0;
  const std::uint8_t passes = through_gate ? anything : writer_set::is_slow;
  for (unsigned rounds = 1;; ++rounds) {
    if (rounds % rounds_between_looks == 0) {
      set.recover_dead_writers();  // all writers may belong to killed processes
      if (!through_gate) set.open_gate_of_dead();
    }
    if (through_gate || may_begin(set, naps)) {
      for (unsigned i = 0; i < writer_set::writers_max; ++i) {
        const unsigned number = (own + i) % writer_set::writers_max;
        if (try_lease(set, number, passes)) return number;
        // relaxed: a hint to wait
        const bool is_shut = (set.shared_->gate_closed.load(std::memory_order_relaxed) & writer_set::is_shut) != 0;
        if (!through_gate && is_shut) break;
      }
    }
    wait.pause();
  }
}

}  // namespace icecore
