// Durable heads (H7): which record is a key's newest, when only the entry itself can say so.
//
// What a crash leaves of a write of record r on top of t, in an entry whose words are (head, committed head):
//   (t, before t) or (t, t)   r's link did not reach the media. If r did, intact and stamped, it is the last record of
//                             its writer's segment: opening finds it there, and restore() links it again.
//   (r, t)                    If r is intact and stamped, it counts. If not, opening has zeroed what it found of r:
//                             then the head leads to no record of this entry on top of t, and t is the newest.
//   (r, r)                    r is durable.
// A live writer, too, leaves (r, t) after its last write, until its next one (commit()): then r is durable. In all of
// these states t is durable before r is linked (H2), and the committed head says t before the head says r.
//
// The space of r is reused (H8). Bytes of another entry's record there, or of no record, are no record on top of t, so
// the head still leads to nothing, however often the store is opened. A record n of this entry in that space must not
// be taken for the record that the head led to before the crash. Nor may a thread that judged the space before n was
// made set the head back afterwards. Three facts ensure this:
//   - The writer that makes n sets the head back before it seals n (link_on_top()), and no head leads to n before the
//     writer's exchange. So when n's bytes first are intact, the head leads elsewhere. A thread that finds them intact
//     and afterwards finds the head leading there has seen that exchange.
//   - A head that leads to nothing changes only under the lock. A thread that holds the lock and finds the head leading
//     to nothing knows that no writer has set it back. So n is not sealed, and it will not be until the lock is
//     released. The exchanges of writers expect a head that leads to a record, whose space is not reused in this
//     session.
//   - A reader sets nothing back. It shows t, which was the newest when it read the head. n is linked later, so its
//     stamp is greater than any version closed by then (H3).
// Setting the head back need not be durable: (r, t) and (t, t) mean the same, also beside an intact n that a crash
// left. If n is stamped, it was linked and counts, and restore() examines it; otherwise opening zeroes it. If a process
// is killed while it holds the lock, the head is set back or it is not; both are correct.
#include <cassert>

#include "history/heads/durable_heads.hpp"

namespace icecore {

/// Whether an update of `entry` that was linked on the committed head lies at `l`.
bool durable_heads::is_on_top_of(link l, link entry, std::uint64_t committed) const noexcept {
  if (!checks_->leads_into_pool(l, sizeof(format::update_header))) return false;
  const record r = at(l);
  if (!r.is_update() || r.as_update().entry != entry || head_of_older(r) != committed) return false;
  // A record marked as durable was intact (H5), and is verified when it is shown, as any other record is. So its
  // checksum is not computed here.
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
    const bool on_top = is_on_top_of(head, entry, committed);
    // An intact record of this entry on top of a record other than the committed one: the head never led to it (H7).
    const bool misplaced = !on_top && is_intact_update_of(head, entry) && head_of_older(at(head)) != committed;
    // If the head has changed meanwhile, the result is void: it may have led, since a crash, to space in which a writer
    // is now making a new record. The fence orders the loads of the bytes before the second load of the head. On x86 it
    // only stops the compiler from reordering, so no test can notice its absence there.
    std::atomic_thread_fence(std::memory_order_acquire);
    // seq_cst: if the bytes are of a new record, this load sees the head that the record's writer has set back (H8).
    // relaxed: a committed head that has not changed was acquired above
    if (e.head.load(std::memory_order_seq_cst) != head ||
        e.committed_head().load(std::memory_order_relaxed) != committed)
      continue;
    if (on_top) {
      // Once the record is durable, advance the committed head, so that the head need not be resolved again.
      const std::uint64_t stamp = at(head).header().stamp.load(std::memory_order_acquire);
      if ((stamp & format::stamp_persisted) != 0) advance_committed(entry, committed, head);
      return {head, head};
    }
    // If only the committed head is damaged, that costs nothing. Otherwise it was the head that was lost.
    if (head == null_link && !is_intact_update_of(committed, entry)) return {entry, head};
    const bool plausible =
        committed == null_link || (checks_->leads_into_pool(committed, sizeof(format::update_header)) &&
                                   at(committed).is_update() && at(committed).as_update().entry == entry);
    if (!plausible || head == null_link || misplaced)
      checks_->raise_damaged(entry, "the entry's links to its newest record are damaged");
    // The whole entry may be damaged, not only its head. Then nothing in it can be trusted.
    if (committed == null_link && !checks_->is_intact(entry))
      checks_->raise_damaged(entry, "the entry fails its checksum");
    return {newest_of(entry, committed), head};
  }
}

/// A head leads to an update's place, never to the entry itself.
void durable_heads::require_place(link entry, link head) const {
  if (head == entry || !checks_->leads_into_pool(head, sizeof(format::update_header)))
    checks_->raise_damaged(entry, "the entry's links to its newest record are damaged");
}

/// For an entry that this thread writes to: makes the head lead to the newest record; null if that is the entry itself.
void durable_heads::set_head_back(link entry) const {
  const recovering_lock alone = checks_->hold_heads();
  const auto [newest, head] = newest_and_head(entry);
  const std::uint64_t word = newest == entry ? null_link : newest;
  // seq_cst: as any change of a head. No other thread changes one that leads to no record (H8)
  if (head != word) at(entry).as_entry().head.store(word, std::memory_order_seq_cst);
}

// A record that existed at opening is stamped, or takes its batch's version. If its stamp is zero otherwise, that is
// damage. It must not get a version of this session: verify_checksum() would trust that (set_unverified_up_to()). The
// record on top of it reveals the damage, because it was linked on a stamped one (H2). A record of a batch that never
// took effect has no record on top: unlink() took it out, and a thread that had read the head before finds the record
// unstamped.
version durable_heads::stamp(link l) const {
  if (!checks_->is_intact(l)) checks_->raise_damaged(l, "the record fails its checksum, or has lost its stamp");
  if (!is_followed(l)) return stamp_sealed(l);
  // acquire: as any stamp. Load it again: the record was stamped before another was linked on it
  if (const std::uint64_t word = at(l).header().stamp.load(std::memory_order_acquire); word != 0)
    return word & format::stamp_version_mask;
  const version v = at(l).batched() ? stamp_sealed(l) : 0;
  if (v == 0) checks_->raise_damaged(l, "the record's stamp is missing");
  return v;
}

/// For an invalid stamp word, which is the "ready" of a batch record, or damage.
version durable_heads::resolve_stamp(link l, std::uint64_t word) const {
  if (word != format::stamp_ready) checks_->raise_damaged(l, "the record's stamp is damaged");
  return 0;
}

/// Whether another record was linked on top of `l`. Cost: O(records linked since).
bool durable_heads::is_followed(link l) const {
  const record r = at(l);
  link top = newest_and_head(r.is_update() ? r.as_update().entry : l).newest;
  if (top == l) return false;
  while (at(top).header().depth > r.header().depth) top = followed(top, at(top).older());
  return top == l;
}

/// Every link must lead to an older record of the same entry, so that no walk leaves its history or goes in a circle.
/// The link to the next older record must skip none. The checksum is verified where a record is shown, not where a walk
/// passes it.
void durable_heads::require_older(link from, link to) const {
  const record r = at(from);
  const link entry = r.is_update() ? r.as_update().entry : from;
  // Most links are of records that were there at opening; asking the media costs a call through an interface.
  const bool inside = (to < sound_below_ && to % 8 == 0) || checks_->leads_into_pool(to, sizeof(format::update_header));
  const bool of_entry = inside && (to == entry || (at(to).is_update() && at(to).as_update().entry == entry));
  const bool is_before = r.is_update() && to == r.as_update().older;
  const std::uint32_t depth = of_entry ? at(to).header().depth : 0;
  if (!of_entry || depth >= r.header().depth || (is_before && depth + 1 != r.header().depth))
    checks_->raise_damaged(from, "the record's links do not lead to older records of its key");
}

/// Advances the committed head to `head`, whose record is durable, before the head moves on from it.
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

/// The record of `now` is durable. If the exchange fails, the committed head has advanced further already.
void durable_heads::advance_committed(link entry, std::uint64_t before, link now) const noexcept {
  // release: H7
  at(entry).as_entry().committed_head().compare_exchange_strong(before, now, std::memory_order_release,
                                                                std::memory_order_relaxed);
}

// A batch that was not ready when its process was killed never takes effect: no other process knows its remaining
// records. While its records were linked, writers of their keys waited (H2), so each record is still its entry's
// newest. Readers passed over it to the one below. A reader that read the head before it is set back passes over it
// afterwards too: it still finds the batch not ready, since no thread changes these bytes any more.
void durable_heads::unlink(link update) const {
  const record r = at(update);
  const link entry = r.as_update().entry;
  std::uint64_t head = update;
  // seq_cst: as any change of a head. It fails if the writer was killed before it linked the record
  at(entry).as_entry().head.compare_exchange_strong(head, head_of_older(r), std::memory_order_seq_cst,
                                                    std::memory_order_relaxed);
  persist_->flush(&at(entry).as_entry().head, 2 * sizeof(std::uint64_t));
}

bool durable_heads::was_linked(link update) const {
  // In this order: if another record was linked on top, this one had been stamped before (H2).
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
    // relaxed: no other thread uses the store while it is being opened
    e.committed_head().store(head_of_older(r), std::memory_order_relaxed);
    e.head.store(update, std::memory_order_relaxed);
  }
  if (newest_and_head(entry).newest == update) e.committed_head().store(update, std::memory_order_relaxed);
  persist_->flush(&e.head, 2 * sizeof(std::uint64_t));
}

}  // namespace icecore
