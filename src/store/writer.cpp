#include "store/writer.hpp"

#include <algorithm>
#include <cstring>

#include "base/threads.hpp"
#include "icecore/error.hpp"

namespace icecore {

void record_totals::add(const record_totals& other) noexcept {
  records += other.records;
  digest += other.digest;
  inserts += other.inserts;
  removes += other.removes;
  keys += other.keys;
  key_bytes += other.key_bytes;
  value_bytes += other.value_bytes;
  record_bytes += other.record_bytes;
}

void partial_segments::put(const place& rest) {
  if (rest.in.size == 0) return;
  const std::scoped_lock lock(mutex_);
  if (rest.room() < room_min) {
    full_.push_back(rest);
  } else {
    by_room_.emplace(rest.room(), rest);
  }
}

std::optional<partial_segments::place> partial_segments::take(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  const auto found = by_room_.lower_bound(bytes);
  if (found == by_room_.end()) return std::nullopt;
  const place p = found->second;
  by_room_.erase(found);
  return p;
}

void writer::change_segment(std::uint64_t bytes) {
  auto rest = partials_->take(bytes);
  if (!rest) {
    const segment fresh = pool_->allocate(bytes);
    rest = partial_segments::place{fresh, fresh.first_record()};
  }
  partials_->put(place_);
  place_ = *rest;
}

void writer::reserve(std::uint64_t bytes) {
  if (place_.position + bytes > place_.in.end()) change_segment(bytes);
}

void writer::rewind(link last, const record_layout& layout) noexcept {
  std::byte* at = pool_->at(link_offset(last));
  std::memset(at, 0, layout.size());
  place_.position = position_before_;
  if (pool_->durability().mode != durability::operation) return;
  pool_->persist().flush(at, layout.size());
  try {
    pool_->persist().sync();
  } catch (...) {  // the store is poisoned, or no memory was left to say so: nothing will come behind it
  }
}

writer_set::writer_set(pool& from) : writers_(std::make_unique<writer[]>(writers_max)) {
  for (unsigned i = 0; i < writers_max; ++i) {
    writers_[i].pool_ = &from;
    writers_[i].partials_ = &partials_;
  }
}

record_totals writer_set::totals() const noexcept {
  record_totals sum;
  for (unsigned i = 0; i < writers_max; ++i) sum.add(writers_[i].totals_);
  return sum;
}

bool writer_set::none_since(version open) const noexcept {
  for (unsigned i = 0; i < writers_max; ++i) {
    // acquire, and in this order: whoever knows of a write has seen what came after its writer was leased. So the
    // sequence is odd here, or so new that the write's count() is seen, too
    if ((writers_[i].sequence_.load(std::memory_order_acquire) & 1) != 0) return false;
    if (writers_[i].last_version_.load(std::memory_order_acquire) >= open) return false;
  }
  return true;
}

writer_set::gate::gate(writer_set& set) : set_(&set), only_one_(set.gate_mutex_) {
  // seq_cst against the exchange in writer_lease: either the writer sees the gate closed or we see it at work
  set.gate_closed_.store(true, std::memory_order_seq_cst);
  for (unsigned i = 0; i < writers_max; ++i) {
    backoff wait;
    const std::uint64_t seen = set.writers_[i].sequence_.load(std::memory_order_seq_cst);
    if ((seen & 1) == 0) continue;
    while (set.writers_[i].sequence_.load(std::memory_order_acquire) == seen) wait.pause();
  }
}

writer_set::gate::~gate() {
  // release: what was done under the gate is seen by whoever finds it open
  set_->gate_closed_.store(false, std::memory_order_release);
}

void writer_lease::lease_any(writer_set& set, unsigned own, bool through_gate) noexcept {
  backoff wait;
  for (;;) {
    for (unsigned i = 0; i < writer_set::writers_max; ++i) {
      if (try_lease(set, (own + i) % writer_set::writers_max, through_gate)) return;
      if (!through_gate && set.gate_closed_.load(std::memory_order_relaxed)) break;  // relaxed: a hint to wait
    }
    wait.pause();
  }
}

}  // namespace icecore
