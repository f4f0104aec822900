#include "history/history.hpp"

#include <bit>
#include <cassert>

#include "base/looks.hpp"
#include "base/raise.hpp"
#include "base/threads.hpp"

namespace icecore {
namespace {

/// Whether the last two jumps on the way from a record at this depth down to the entry are of one length. Lengths are
/// 2^k - 1, the greatest that there is room for first: so the depth tells, and no record need be read for it.
bool last_jumps_are_equal(std::uint32_t depth) noexcept {
  std::uint32_t rest = depth - 1;
  while (rest != 0) {
    const std::uint32_t length = (std::uint32_t{1} << (std::bit_width(rest + 1) - 1)) - 1;
    if (rest == 2 * length) return true;  // nothing is left behind these two
    rest -= length;
  }
  return false;
}

}  // namespace

// Where heads last, what was there at opening is stamped, or takes its batch's version: zeros where a stamp should be
// are damage then, and must not become a version of today, which would be believed (believe_after()). They are told by
// the record on top, which was linked on a stamped one (H2). Under no record lies one of a batch that never happened:
// it was taken out (unlink()), and whoever had read the head before meets it unstamped.
version histories::stamp(link l) const {
  if (!heads_last()) return stamp_sealed(l);
  if (!checks_->is_whole(l)) checks_->raise_damaged(l, "the record fails its checksum, or has lost its stamp");
  if (!is_followed(l)) return stamp_sealed(l);
  // acquire: as any stamp. It is looked at again: the record was stamped before it was followed
  if (const std::uint64_t word = at(l).header().stamp.load(std::memory_order_acquire); word != 0)
    return word & format::stamp_version_mask;
  const version v = at(l).batched() ? stamp_sealed(l) : 0;
  if (v == 0) checks_->raise_damaged(l, "the record's stamp is missing");
  return v;
}

version histories::stamp_sealed(link l) const noexcept {
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
  // release: publishes nothing new (linking did) but keeps the record before its stamp on media lines;
  // acquire on failure: the other's stamp is as good as ours
  if (r.header().stamp.compare_exchange_strong(expected, word, std::memory_order_acq_rel, std::memory_order_acquire)) {
    return v;
  }
  return expected & format::stamp_version_mask;
}

void histories::stamp_unseen(link fresh) const noexcept {
  const std::uint64_t word = codec_.encode(clock_->now(), fresh + format::stamp_offset);
  // release: as in stamp(); nobody can be stamping it besides
  at(fresh).header().stamp.store(word, std::memory_order_release);
}

version histories::stamp_batch(link batch) const noexcept {
  auto& stamp = at(batch).header().stamp;
  // acquire: pairs with the release of stamp_ready, behind which all records of the batch are linked
  std::uint64_t word = stamp.load(std::memory_order_acquire);
  if (word == 0) return 0;
  if (word == format::stamp_ready) {
    // the clock is read after stamp_ready was seen: a reader of closed v that met the batch unready skipped it, and
    // the clock was beyond v already, so this stamp is too (H3)
    const version v = clock_->now();
    const std::uint64_t mine = codec_.encode(v, batch + format::stamp_offset);
    if (stamp.compare_exchange_strong(word, mine, std::memory_order_acq_rel, std::memory_order_acquire)) return v;
  }
  return word & format::stamp_version_mask;
}

link histories::find_older(link newest, version newest_stamped, version v) const {
  const record r = at(newest);
  if (r.header().depth < version_samples::depth_min) return find_by_jumps(newest, v);
  link l = samples_->start(r.as_update().entry, r.header().depth, v, newest, newest_stamped);
  // between two samples: records written one after the other often lie so, too; fetch them all while reading the first
  for (unsigned i = 1; i < version_samples::spacing; ++i) {
    __builtin_prefetch(at(l).address() - i * format::cache_line_size);
  }
  for (unsigned i = 0; i <= version_samples::spacing; ++i) {
    const version s = stamp_of(l);
    if (s != 0 && s <= v) return l;
    if (at(l).is_entry()) return null_link;
    l = older(l);
  }
  return find_by_jumps(l, v);  // a sample was missing
}

link histories::find_by_jumps(link newest, version v) const {
  link l = newest;
  for (;;) {
    const version stamped = stamp_of(l);
    if (stamped != 0 && stamped <= v) return l;
    const record r = at(l);
    if (r.is_entry()) return null_link;
    // a jump that does not overshoot is taken: everything from l down to it is too new (H1)
    const link jump = followed(l, r.as_update().jump);
    l = stamp_of(jump) > v ? jump : older(l);
  }
}

link histories::find_latest_from(link newest) const {
  if (stamp_of(newest) != 0) return newest;
  return older(newest);  // of an unready batch: the one below is stamped (H2)
}

/// Returns when the entry's newest record is stamped, and as durable as the mode wants it; false if it is the newest no
/// more: it was of a batch whose process was killed.
bool histories::settle(link entry, link l) const {
  backoff wait;
  for (unsigned rounds = 1; stamp_of(l) == 0; ++rounds) {
    // another writer's batch is between its first link and its stamp: a matter of microseconds. Batches link their keys
    // in ascending order, so two of them never wait for each other
    if (persist_->poisoned()) persist_->raise_poisoned();
    if (look_after_killed_ && rounds % rounds_between_looks == 0) {
      look_after_killed_();
      if (heads_last() && newest(entry) != l) return false;
    }
    wait.pause();
  }
  persist_before_return(l);
  return true;
}

/// Depths have 32 bits: a record above the greatest would be of depth 0.
void histories::require_room_above(link entry, link top) const {
  if (at(top).header().depth < format::depth_max) [[likely]]
    return;
  raise(errc::invalid_argument, "the key '{}' has {} records, and a history has no more", at(entry).key(),
        format::depth_max);
}

void histories::set_links(record fresh, link entry, link older) const {
  auto& u = fresh.as_update();
  const std::uint32_t depth = at(older).header().depth;
  u.entry = entry;
  u.older = older;
  u.record.depth = depth + 1;
  // skew-binary: two jumps of equal length behind the parent become one
  u.jump = last_jumps_are_equal(depth) ? told_jump_of(jump_of(older)) : older;
}

bool histories::link_on_top(link entry, link fresh, std::uint32_t seed, bool unless_removed) const {
  auto& head = at(entry).as_entry().head;
  const record r = at(fresh);
  for (;;) {
    const auto [top, head_then] = newest_and_head(entry);
    std::uint64_t seen = top == entry ? null_link : head_word(top);
    if (heads_last() && head_then != seen) {  // H8
      set_head_back(entry);
      continue;
    }
    if (!settle(entry, top)) continue;           // H1, H2
    if (heads_last()) settle_head(entry, seen);  // H7
    if (unless_removed && at(top).is_removal()) return false;
    require_whole(top);
    require_room_above(entry, top);
    set_links(r, entry, top);
    r.seal(seed);
    // seq_cst: H3, the writer's side; also the release that publishes the record
    if (head.compare_exchange_strong(seen, head_word(fresh), std::memory_order_seq_cst, std::memory_order_relaxed))
      return true;
  }
}

void histories::add_sample(record r, link l) const {
  samples_->add(r.as_update().entry, r.header().depth, stamp_of(l), l);
}

version histories::complete_batch(link batch) const {
  // release: all links come before anyone can stamp the batch (H4); seq_cst RMWs linked them
  at(batch).header().stamp.store(format::stamp_ready, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // H3: ready is visible before the clock is read
  const version v = stamp_batch(batch);
  persist_before_return(batch);
  return v;
}

bool histories::was_durable_at_opening(link l) const noexcept {
  const auto after = std::ranges::upper_bound(durable_, l, {}, &durable_range::begin);
  return after != durable_.begin() && l < std::prev(after)->end;
}

void histories::persist_record(link l) const {
  const record r = at(l);
  // acquire: a set bit means that another thread's flush and fence are done (H5)
  std::uint64_t word = r.header().stamp.load(std::memory_order_acquire);
  if ((word & format::stamp_persisted) != 0) return;
  if (word == 0) {  // of a batch, from before opening, where heads last: its own stamp may not have come to the media
    static_cast<void>(stamp_of(l));
    word = r.header().stamp.load(std::memory_order_acquire);
  }
  assert(word != 0 && word != format::stamp_ready);
  // Its bit is left as it is: setting it would dirty a page for nothing.
  if (was_durable_at_opening(l)) return;
  if (r.batched()) {
    // its bytes were durable before the batch became ready; what decides is the batch's stamp
    persist_record(r.batch());
  } else {
    persist_->flush(r.address(), r.layout().size());
    persist_->sync();
  }
  set_persisted(l);
}

}  // namespace icecore
