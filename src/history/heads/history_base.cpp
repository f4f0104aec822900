#include "history/heads/history_base.hpp"

#include <atomic>

#include "base/raise.hpp"

namespace icecore {

version history_base::stamp_sealed(link l) const noexcept {
  const record r = at(l);
  version v = 0;
  if (r.batched()) {
    v = stamp_batch(r.batch());
    if (v == 0) return 0;
  } else {
    v = clock_->now();
  }
  std::uint64_t expected = 0;
  const std::uint64_t word = codec_.encode(v, l + format::stamp_offset);
  // release: linking has published the record already; this keeps the record before its stamp on media lines. acquire
  // on failure: the stamp that another thread set is just as good
  if (r.header().stamp.compare_exchange_strong(expected, word, std::memory_order_acq_rel, std::memory_order_acquire)) {
    return v;
  }
  return expected & format::stamp_version_mask;
}

version history_base::stamp_batch(link batch) const noexcept {
  auto& stamp = at(batch).header().stamp;
  // acquire: pairs with the release of stamp_ready; all records of the batch were linked before that
  std::uint64_t word = stamp.load(std::memory_order_acquire);
  if (word == 0) return 0;
  if (word == format::stamp_ready) {
    // the clock is read after stamp_ready was seen: a reader of closed v that met the batch before it was ready skipped
    // it, and the clock was beyond v already, so this stamp is too (H3)
    const version v = clock_->now();
    const std::uint64_t mine = codec_.encode(v, batch + format::stamp_offset);
    if (stamp.compare_exchange_strong(word, mine, std::memory_order_acq_rel, std::memory_order_acquire)) return v;
  }
  return word & format::stamp_version_mask;
}

/// Depths have 32 bits, so a record on top of the greatest depth would get depth 0.
void history_base::require_room_above(link entry, link top) const {
  if (at(top).header().depth < format::depth_max) [[likely]]
    return;
  raise(errc::invalid_argument, "the key '{}' has {} records, the maximum for one key", at(entry).key(),
        format::depth_max);
}

void history_base::add_sample(record r, link l) const {
  samples_->add(r.as_update().entry, r.header().depth, stamp_of_own(l), l);
}

bool history_base::was_durable_at_opening(link l) const noexcept {
  const auto after = std::ranges::upper_bound(durable_, l, {}, &durable_range::begin);
  return after != durable_.begin() && l < std::prev(after)->end;
}

}  // namespace icecore
