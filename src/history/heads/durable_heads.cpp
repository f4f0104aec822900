// Durable heads (H7): which record is a key's newest, when nothing but the entry itself tells.
//
// What a crash leaves of a write of record r on top of t, in an entry whose words are (head, settled):
//   (t, before t) or (t, t)   r's link did not reach the media. If r did, whole and stamped, then it is the last of its
//                             writer's segment, where opening finds it, and restore() links it again.
//   (r, t)                    r is whole and stamped: it counts. Or it is not (opening has zeroed what it found of r):
//                             then the head leads to no record of this entry on top of t, and t is the newest.
//   (r, r)                    r is durable.
// (r, t) is also what a live writer leaves of its last write, until its next one (commit()): r is durable then.
// t is durable in all of them before r is linked (H2), and the settled word says t before the head says r.
//
// The place r is used again (H8). Bytes of another entry's record there, or of none, are no record on top of t, so the
// head goes on leading to nothing, through any number of openings. A record n of this entry there must not be taken for
// what the head of before the crash led to, nor be set back by whoever judged the place before n was made:
//   - The writer that makes n sets the head back before it seals n (link_on_top()), and no head leads to n before its
//     exchange. So when n's bytes first are whole the head leads elsewhere, and whoever finds them whole and the head
//     still leading there afterwards has seen that exchange.
//   - A head that leads to nothing changes under the lock alone. Who holds it, and finds the head leading to nothing,
//     knows that no writer has set it back, so n is not sealed, and it is not until the lock is given back. The
//     exchanges of writers expect a head that leads to a record, whose place is not used again in this session.
//   - A reader sets nothing back. It shows t, which was the newest when it read the head; n, linked later, is stamped
//     later than any version closed by then (H3).
// That the head was set back need not be durable: (r, t) and (t, t) tell the same, also beside a whole n that a crash
// left: if n is stamped it was linked and counts, in which case restore() looks at it; else opening zeroes it.
// A process killed under the lock has set the head back, or not.
#include <cassert>

#include "history/heads/durable_heads.hpp"

namespace icecore {

/// Whether at `l` lies an update of `entry` that was linked on what `settled` says.
bool durable_heads::is_on_top_of(link l, link entry, std::uint64_t committed) const noexcept {
  if (!checks_->leads_into_pool(l, sizeof(format::update_header))) return false;
  const record r = at(l);
  if (!r.is_update() || r.as_update().entry != entry || head_of_older(r) != committed) return false;
  // What was marked as durable was whole (H5), and is looked at like any other record: its checksum is not computed.
  const std::uint64_t stamp = r.header().stamp.load(std::memory_order_acquire);  // acquire: H5
  return ((stamp & format::stamp_persisted) != 0 && codec_.valid(stamp, l + format::stamp_offset)) ||
         checks_->is_intact(l);
}

bool durable_heads::is_intact_update_of(link l, link entry) const noexcept {
  return checks_->leads_into_pool(l, sizeof(format::update_header)) && at(l).is_update() &&
         at(l).as_update().entry == entry && checks_->is_intact(l);
}

newest_record durable_heads::resolve_head(link entry) const {
  auto& e = at(entry).as_entry();
  for (;;) {
    const std::uint64_t head = e.head.load(std::memory_order_seq_cst);  // seq_cst: H3, the reader's side
    // acquire: what it links to is durable (H7)
    const std::uint64_t committed = e.committed_head().load(std::memory_order_acquire);
    if (head == committed) return newest_and_head(entry);
    const bool whole = is_on_top_of(head, entry, committed);
    // A record of this entry on top of another one than the settled word says was never linked there (H7).
    const bool misplaced = !whole && is_intact_update_of(head, entry) && head_of_older(at(head)) != committed;
    // A head that has changed meanwhile was looked at in vain: what it led to may be a record that its writer is making
    // where a crash has left it leading to. The bytes were loaded before the head is again: no more than the compiler
    // needs to be told on x86, so no test can miss it there.
    std::atomic_thread_fence(std::memory_order_acquire);
    // seq_cst: it sees the head set back by whoever made the bytes (H8). relaxed: a settled word that is the same was
    // acquired above
    if (e.head.load(std::memory_order_seq_cst) != head ||
        e.committed_head().load(std::memory_order_relaxed) != committed)
      continue;
    if (whole) {
      // Once it is durable nobody needs to doubt it again.
      const std::uint64_t stamp = at(head).header().stamp.load(std::memory_order_acquire);
      if ((stamp & format::stamp_persisted) != 0) advance_committed(entry, committed, head);
      return {head, head};
    }
    // The settled word alone may be damaged, which costs nothing; else it was the head that was lost.
    if (head == null_link && !is_intact_update_of(committed, entry)) return {entry, head};
    const bool plausible =
        committed == null_link || (checks_->leads_into_pool(committed, sizeof(format::update_header)) &&
                                   at(committed).is_update() && at(committed).as_update().entry == entry);
    if (!plausible || head == null_link || misplaced)
      checks_->raise_damaged(entry, "the entry's links to its newest record are damaged");
    // What was spoilt may be the whole entry, not its head: then nothing of it is to be believed.
    if (committed == null_link && !checks_->is_intact(entry))
      checks_->raise_damaged(entry, "the entry fails its checksum");
    return {newest_of(entry, committed), head};
  }
}

newest_record durable_heads::checked_newest(link entry, std::uint64_t head) const {
  // acquire: what it links to is durable (H7)
  if (head != at(entry).as_entry().committed_head().load(std::memory_order_acquire)) return resolve_head(entry);
  if (head == null_link) return {entry, head};
  // A head and a settled word that say the same may both be damaged: what follows them finds out, inside the pool.
  if (head >= sound_below_ || head % 8 != 0) [[unlikely]] {
    if (!checks_->leads_into_pool(head, sizeof(format::update_header)))
      checks_->raise_damaged(entry, "the entry's links to its newest record are damaged");
  }
  const record r = at(head);
  if (!r.is_update() || r.as_update().entry != entry) [[unlikely]]
    checks_->raise_damaged(entry, "the entry's links lead to no record of its key");
  return {head, head};
}

/// Of an entry that this thread writes to: the head leads to a record, or to none, the first one being the newest.
void durable_heads::set_head_back(link entry) const {
  const recovering_lock alone = checks_->hold_heads();
  const auto [newest, head] = newest_and_head(entry);
  const std::uint64_t word = newest == entry ? null_link : newest;
  // seq_cst: as any change of a head. Nobody else changes one that leads to no record (H8)
  if (head != word) at(entry).as_entry().head.store(word, std::memory_order_seq_cst);
}

// What was there at opening is stamped, or takes its batch's version: zeros where a stamp should be
// are damage then, and must not become a version of today, which would be believed (set_unverified_up_to()). They are
// told by the record on top, which was linked on a stamped one (H2). Under no record lies one of a batch that never
// happened: it was taken out (unlink()), and whoever had read the head before meets it unstamped.
version durable_heads::stamp(link l) const {
  if (!checks_->is_intact(l)) checks_->raise_damaged(l, "the record fails its checksum, or has lost its stamp");
  if (!is_followed(l)) return stamp_sealed(l);
  // acquire: as any stamp. It is looked at again: the record was stamped before it was followed
  if (const std::uint64_t word = at(l).header().stamp.load(std::memory_order_acquire); word != 0)
    return word & format::stamp_version_mask;
  const version v = at(l).batched() ? stamp_sealed(l) : 0;
  if (v == 0) checks_->raise_damaged(l, "the record's stamp is missing");
  return v;
}

/// A stamp that is not valid: that of a batch, or damage.
version durable_heads::resolve_stamp(link l, std::uint64_t word) const {
  if (word != format::stamp_ready) checks_->raise_damaged(l, "the record's stamp is damaged");
  return 0;
}

/// Whether another record was linked on top of `l`. Cost: the records since.
bool durable_heads::is_followed(link l) const {
  const record r = at(l);
  link top = newest_and_head(r.is_update() ? r.as_update().entry : l).newest;
  if (top == l) return false;
  while (at(top).header().depth > r.header().depth) top = followed(top, at(top).older());
  return top == l;
}

/// Every link leads to an older record of the same entry, so no walk leaves its history or goes in a circle; and the
/// one to the record before passes none. The checksum is looked at where a record is shown, not where it is passed.
void durable_heads::require_older(link from, link to) const {
  const record r = at(from);
  const link entry = r.is_update() ? r.as_update().entry : from;
  const bool inside = checks_->leads_into_pool(to, sizeof(format::update_header));
  const bool of_entry = inside && (to == entry || (at(to).is_update() && at(to).as_update().entry == entry));
  const bool is_before = r.is_update() && to == r.as_update().older;
  const std::uint32_t depth = of_entry ? at(to).header().depth : 0;
  if (!of_entry || depth >= r.header().depth || (is_before && depth + 1 != r.header().depth))
    checks_->raise_damaged(from, "the record's links do not lead to older records of its key");
}

/// Before the head moves on from `head`, whose record is durable: the settled word says so.
void durable_heads::advance_committed_to(link entry, std::uint64_t head) const {
  auto& e = at(entry).as_entry();
  const std::uint64_t committed = e.committed_head().load(std::memory_order_acquire);  // acquire: as resolve_head()
  if (committed != head && head != null_link && committed == head_of_older(at(head)))
    advance_committed(entry, committed, head);
  const auto line = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) / format::cache_line_size; };
  if (persist_on_read_ && line(&e.head) != line(&e.committed_head())) {
    flush_head(entry);
    persist_->fence();
  }
}

/// `now` is durable. A late one fails: the word has come further.
void durable_heads::advance_committed(link entry, std::uint64_t before, link now) const noexcept {
  // release: H7
  at(entry).as_entry().committed_head().compare_exchange_strong(before, now, std::memory_order_release,
                                                                std::memory_order_relaxed);
}

// A batch that was not yet ready when its process was killed never happens: nobody else can tell what was to come.
// While its records were linked, writers of their keys waited (H2), so each of them still is its entry's newest; and
// readers passed over it, to the one below. A reader that has read the head before it is set back does so afterwards
// too, and goes on seeing the batch unready, since nobody changes these bytes any more.
void durable_heads::unlink(link update) const {
  const record r = at(update);
  const link entry = r.as_update().entry;
  std::uint64_t head = update;
  // seq_cst: as any change of a head. It fails where the writer was killed before it linked the record
  at(entry).as_entry().head.compare_exchange_strong(head, head_of_older(r), std::memory_order_seq_cst,
                                                    std::memory_order_relaxed);
  persist_->flush(&at(entry).as_entry().head, 2 * sizeof(std::uint64_t));
}

bool durable_heads::was_linked(link update) const {
  // In this order: where another record was linked on top, this one had been stamped before (H2).
  if (newest_and_head(at(update).as_update().entry).newest == update) return true;
  return at(update).header().stamp.load(std::memory_order_acquire) != 0;  // acquire: as any stamp
}

void durable_heads::restore(link update) const {
  const record r = at(update);
  const link entry = r.as_update().entry;
  auto& e = at(entry).as_entry();
  static_cast<void>(stamp_of(update));
  const link top = newest_and_head(entry).newest;
  if (top != update && at(top).header().depth < r.header().depth) {
    if (top != r.older()) checks_->raise_damaged(update, "the record before it in its history is missing");
    // relaxed: while opening, nobody else is there
    e.committed_head().store(head_of_older(r), std::memory_order_relaxed);
    e.head.store(update, std::memory_order_relaxed);
  }
  if (newest_and_head(entry).newest == update) e.committed_head().store(update, std::memory_order_relaxed);
  persist_->flush(&e.head, 2 * sizeof(std::uint64_t));
}

}  // namespace icecore
