#include "store/persistent/dead_writers.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

namespace icecore::detail {

void dead_writers::roll_forward(unsigned writer, writer_slot& slot) {
  logged_segments& segments = media_->segments();
  persistence& persist = pool_->persist();
  // Use the log, not the slot: the process may have been killed when it had changed one and not yet the other.
  const auto log = segments.recovered_log(writer);
  segment_tail tail;
  record_totals totals;
  version newest = slot.last_version.load(std::memory_order_relaxed);  // relaxed: under the lock (W4)
  if (log) totals = log->totals;
  if (log && log->open.size != 0) {
    const segment& s = log->open;
    const auto happened = what_happened(s, log->from);
    totals.add(happened.totals);
    newest = std::max(newest, happened.newest);
    make_durable(happened.last);
    const bool has_left_heads = [&] {
      const std::scoped_lock alone(zeroing_);
      return roll_back_batch(s, happened.position);
    }();
    if (has_left_heads) {
      // no head leads there once the segment belongs to no writer: write_log() fences first
      segments.abandon(writer, {s, happened.position}, totals, newest);
    } else {
      {
        const std::scoped_lock alone(zeroing_);
        tails_.clear_behind(s, happened.position);
      }
      // zeros too: another survivor may have stored them and been killed before it flushed them
      persist.flush(pool_->at(happened.position), s.end() - happened.position);
      tail = {s, happened.position};
    }
  }
  // Make the zeros durable too, before other records follow behind them.
  if (histories_->persists_on_read()) persist.sync();
  totals.subtract(segments.before(writer));
  slot.tail = tail;
  slot.position_before = null_link;
  commit(slot.pending.entry);
  slot.pending = {};
  slot.totals = totals;
  slot.last_version.store(newest, std::memory_order_release);  // relaxed would do: the sequence's release covers it
}

void dead_writers::roll_back(unsigned writer,
                             const std::function<bool(std::string_view key, link entry)>& never_shown) {
  const auto log = media_->segments().recovered_log(writer);
  if (!log || log->open.size == 0) return;
  persistence& persist = pool_->persist();
  const segment& s = log->open;
  link undone = null_link;
  {
    const std::scoped_lock alone(zeroing_);
    const auto t = tails_.read(s, log->from);
    undone = t.position;  // or zeroed by a survivor that was killed before the zeros were durable
    for (const link l : t.last) {
      const record r = histories_->at(l);
      if (!r.is_entry() || !never_shown(r.key(), l)) continue;
      std::memset(r.address(), 0, r.layout().size());
      undone = l;
      break;
    }
  }
  // the key may be entered again, and must not reach the media before these zeros do
  persist.flush(pool_->at(undone), s.end() - undone);
  persist.fence();
  if (histories_->persists_on_read()) persist.sync();
}

/// Resolves the commit that the dead writer's last update but one left pending. The slot's record may be half written:
/// only its entry is used, whichever update that belongs to.
void dead_writers::commit(link entry) const {
  if (entry == null_link) return;
  try {
    static_cast<void>(histories_->newest(entry));
  } catch (const error& e) {
    if (e.code() != errc::damaged) throw;  // readers of the entry get this error
  }
}

writer_tail::content dead_writers::what_happened(const segment& s, link from) const {
  const durable_histories& histories = *histories_;
  std::unique_lock alone(zeroing_);
  auto t = tails_.read(s, from);
  if (roll_forward_linked(s, t.position)) t = tails_.read(s, from);
  for (const link l : t.last) {
    const record r = histories.at(l);
    // by roll_back(), under a leaf's lock
    const auto is_undone = [&] { return r.kind() == format::record_kind::none; };
    if (!is_undone()) {
      if (!r.is_entry()) continue;
      const std::string key(r.key());
      alone.unlock();
      const bool is_shown = index_->find(key) == l;  // waits for the leaf
      alone.lock();
      if (is_shown) continue;
      if (!is_undone()) std::memset(r.address(), 0, r.layout().size());
    }
    return tails_.read(s, from);
  }
  return t;
}

/// Stamps what is linked behind `position`. Returns false if nothing is.
bool dead_writers::roll_forward_linked(const segment& s, link position) const {
  const durable_histories& histories = *histories_;
  const auto next = tails_.first_intact(s, position);
  if (!next) return false;
  const record r = histories.at(*next);
  if (r.kind() == format::record_kind::batch) return histories.roll_forward_batch(*next) != 0;
  return r.is_update() && !r.batched() && histories.was_linked(*next) && histories.stamp_of(*next) != 0;
}

/// Sets back the heads of a batch that never takes effect. Returns false if none of its records can have been linked.
bool dead_writers::roll_back_batch(const segment& s, link position) const {
  const durable_histories& histories = *histories_;
  bool linked = false;
  for (auto at = tails_.first_intact(s, position); at; at = tails_.first_intact(s, *at + 8)) {
    const record r = histories.at(*at);
    if (!r.is_update() || !r.batched()) continue;
    histories.unlink(*at);
    linked = true;
  }
  return linked;
}

void dead_writers::list_and_tell(link tag) const {
  const std::scoped_lock nobody_appends(told_->lock());  // a killed holder's: who makes the next tag repairs the rest
  tags_->list().list(tag);
  const record r = histories_->at(tag);
  try {
    told_->tell_for_killed(
        *memory_, {histories_->stamp_of(tag), r.as_tag().time_ns, std::string(r.key()), std::string(r.value())});
  } catch (const std::bad_alloc&) {  // then it is seen when the store is opened again: the others need not stop for it
  }
}

/// Makes durable what the killed process may not have flushed, or not fenced, before others rely on it.
void dead_writers::make_durable(const std::vector<link>& last) const {
  const durable_histories& histories = *histories_;
  for (const link l : last) {
    const record r = histories.at(l);
    static_cast<void>(histories.stamp_of(l));  // a batch's records take the stamp of its batch record
    histories.flush_fresh(l, r.layout().size());
    if (r.is_entry()) index_->flush_leaf_of(r.key());
    if (r.kind() == format::record_kind::tag) list_and_tell(l);
  }
  histories.await_flushed(last);
  for (const link l : last) histories.advance_committed(histories.written_of(l));
}

}  // namespace icecore::detail
