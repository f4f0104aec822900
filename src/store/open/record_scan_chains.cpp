// Checks that the records' links form histories, each a chain of updates that ends at its entry.
#include <atomic>

#include "base/threads.hpp"
#include "store/open/record_scan.hpp"

namespace icecore::detail {

void record_scan::check_chains() {
  constexpr std::size_t ahead = 16;  // this many records are being prefetched
  for (of_pool& o : of_pools_) {
    if (o.size != 0) o.followed = bits_of(o.size);
  }
  run_on_threads(static_cast<unsigned>(parts_.size()), [&](unsigned thread) {
    record_scan_part& part = parts_[thread];
    for (std::size_t i = 0; i < part.updates.size(); ++i) {
      if (i + ahead < part.updates.size()) {
        const auto& soon = record(pool_->at(part.updates[i + ahead])).as_update();
        pool_->prefetch(soon.older);
        prefetch_begins(soon.older);
        prefetch_followed(soon.older);
        if (soon.older != soon.entry) {  // otherwise all three are one record
          for (const link l : {soon.entry, soon.jump}) {
            pool_->prefetch(l);
            prefetch_begins(l);
          }
        }
      }
      check_chain(part.updates[i], part);
    }
    name_damages(part);
  });
  for (of_pool& o : of_pools_) o.followed.reset();
}

void record_scan::prefetch_followed(link l) const noexcept {
  const of_pool& o = pool_of(l);
  if (link_offset(l) < o.size) __builtin_prefetch(&o.followed[link_offset(l) / bits_unit], 1);
}

/// Returns false if another update has already claimed to follow this record, which counts.
bool record_scan::follow(link older) noexcept {
  const std::uint64_t offset = link_offset(older);
  const std::uint64_t bit = std::uint64_t{1} << (offset / 8 % 64);
  // relaxed: of two threads that set one bit, one comes second
  std::atomic_ref word(of_pools_[link_pool(older)].followed[offset / bits_unit]);
  return (word.fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
}

void record_scan::check_chain(link update, record_scan_part& into) {
  const record r(pool_->at(update));
  const auto& u = r.as_update();
  if (!begins(u.entry) || !begins(u.older) || !begins(u.jump)) {
    report(into, update, "record", "the record before it in its history is missing: it links to no record");
    return;
  }
  const record entry(pool_->at(u.entry));
  const record older(pool_->at(u.older));
  const record jump(pool_->at(u.jump));
  const auto of_same_entry = [&](record x, link at) {
    return at == u.entry || (x.is_update() && x.as_update().entry == u.entry);
  };
  const std::uint32_t depth = r.header().depth;
  if (!entry.is_entry() || !of_same_entry(older, u.older) || older.header().depth + 1 != depth) {
    return report(into, update, "record", "the record before it in its history is missing");
  }
  if (!of_same_entry(jump, u.jump) || jump.header().depth >= depth) {
    return report(into, update, "record", "its jump link does not lead to an older record");
  }
  const version before = version_of(u.older).value_or(0);
  const version after = version_of(update).value_or(0);
  if (before > after) {
    report(into, update, "record", "its version is older than that of the record before it");
  } else if (!follow(u.older)) {
    report(into, update, "record", "another record links to the same older record");
  } else if (before == after) {
    into.superseded += icecore::superseded_bytes(older.layout());
  }
}

}  // namespace icecore::detail
