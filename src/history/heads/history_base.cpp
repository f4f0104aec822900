#include "history/heads/history_base.hpp"

#include <atomic>

#include "base/raise.hpp"

namespace icecore {

version history_base::stamp_sealed(link l) const noexcept {
  const record r = at(l);
  if (!r.batched()) return set_stamp(r, l, clock_->now());
  const version v = stamp_batch(r.batch());
  return v == 0 ? 0 : set_stamp(r, l, v);
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

void history_base::raise_no_room_above(link entry) const {
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
