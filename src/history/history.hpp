// One key's versions: an append-only, lock-free list of records from newest to oldest, stamped by whoever comes first.
//
// After versioned CAS (Wei et al., PPoPP 2021) with the append-only per-key histories and lazily completed writes of
// IPDPS 2022 (section IV); the jump links are Myers' skew-binary ones (1983). The protocol for single records is
// model-checked as an explicit-state model; docs/design/0001-histories.md tells it and what batches add.
//
// A write:  fill the record, settle the newest (H2), set the links, seal, CAS the entry's head, stamp, persist.
// A read:   stamp the newest if nobody has (stamp-on-read), walk to the first record <= version, persist what is
//           returned if nobody has (persist-on-read).
//
// Threads: all functions from any thread.
// Cost: append O(1); find O(log depth).
// Invariants:
//   H1. Along a history from newest to oldest, stamps never increase and depth falls by one with each record.
//   H2. A record is linked only on one that is stamped and, under operation durability, durable. So a record found
//       valid after a crash has all its older ones.
//   H3. A record not yet seen by a reader of closed version v will be stamped > v. For a stamp is a clock value read
//       after linking: if the reader's load of the head (sequentially consistent, after the tick that closed v) came
//       before the link, the clock read comes after the tick. A new key's link is a store into the index, ordered
//       before the clock read by a fence. Where an index makes readers wait from before the clock read until after the
//       link (a leaf's lock), the clock may be read, and the record stamped, before it is linked: a reader that did not
//       wait looked before the clock was read.
//   H4. A stamp, once set, never changes. Every record of a batch carries the stamp of its batch record, which may be
//       set only once all records of the batch are linked (and under operation durability durable): stamp_ready.
//   H5. Under operation durability the persisted bit is set only after record and stamp are durable.
//   H6. An entry's second version, once not 0, is the stamp of the record of depth 2, which never changes (H4), and
//       that record is stamped and as durable as a reader needs it. A head says that it links to the second record and
//       that this is a removal in the same word as the link. So most finds of keys with one or two versions end at the
//       entry's cache line. Missing, both only cost a look at the newest record.
//   H7. In a store whose heads last (the persistent index), the word of the second version is the entry's *settled*
//       word instead: a value that the head has had, and what it linked to was durable before it was stored. It is
//       stored before the head moves on, so it is the head or what the head was before, on media too: both words lie in
//       one line, or the first is flushed before the second is stored. A head that differs from it leads to a record of
//       this entry on top of the settled one, or, after a crash, to bytes that never became one: then the settled word
//       is the head. So no crash loses a key's history, and nothing has to be read at opening.
//   H8. A head that leads to no record of its entry is replaced by the settled word alone, by a writer of the entry,
//       under one lock (hold_heads()), before any writer seals a record of the entry. Readers change no head. So what a
//       holder of the lock has judged stays so until it has set the head back, although the place that the head leads
//       to is used again (durable_heads.cpp).
#pragma once

#include "history/heads/durable_heads.hpp"
#include "history/heads/history_base.hpp"
#include "history/heads/rebuilt_heads.hpp"

namespace icecore {

/// `Heads`, rebuilt_heads or durable_heads, tell which record of an entry is its newest.
template <class Heads>
class basic_histories final : public Heads {
 public:
  using Heads::at;
  using Heads::followed;
  using Heads::head_word;
  using Heads::Heads;
  using Heads::newest_and_head;
  using Heads::stamp_of;
  using Heads::verify_checksum;
  /// Where to look for what `entry` shows in closed version `v`, as its own cache line tells: null_link if no value is
  /// visible; otherwise a record to pass to find_from(), the entry itself if it is the one shown. With version_max: as
  /// of some moment during the call, at which, if null_link comes back, the newest record was a removal or none was.
  using Heads::start_of;

  /// The newest record of an entry: the entry's own first one, or what its head links to.
  [[nodiscard]] link newest(link entry) const { return newest_and_head(entry).newest; }

  /// The record that `entry` shows in closed version `v`: a removal, an insert, or null_link if there was none yet.
  [[nodiscard]] link find_at(link entry, version v) const {
    const link l = newest(entry);
    // The oldest record lies in the entry, which is read already: if it is too new, all are (H1), unread.
    return stamp_of(entry) > v ? null_link : find_from(l, v);
  }
  /// The same, starting from a record of the entry.
  [[nodiscard]] link find_from(link newest, version v) const {
    const version stamped = stamp_of(newest);
    if (stamped != 0 && stamped <= v) return newest;
    return at(newest).is_entry() ? null_link : find_older(newest, stamped, v);
  }
  /// The newest record that has happened; null_link if none has.
  [[nodiscard]] link find_latest(link entry) const { return find_latest_from(newest(entry)); }
  /// The same, starting from the newest record of the entry.
  [[nodiscard]] link find_latest_from(link newest) const {
    if (stamp_of(newest) != 0) return newest;
    return older(newest);  // of an unready batch: the one below is stamped (H2)
  }
  /// The record before this one in its history, or null_link.
  [[nodiscard]] link older(link l) const {
    const record r = at(l);
    return r.is_update() ? followed(l, r.as_update().older) : null_link;
  }

  /// Returns when the record is as durable as a read of it must be (persist-on-read). May throw errc::poisoned.
  void persist_before_return(link l) const {
    if (this->persist_on_read_) persist_record(l);
  }
  /// Whether the entry's newest record is a removal; stamped then, and as durable as a read of it must be.
  [[nodiscard]] bool is_removed(link entry) const {
    for (;;) {
      const link top = newest(entry);
      verify_checksum(top);
      if (!at(top).is_removal()) return false;
      if (wait_until_committed(entry, top)) return true;
    }
  }

  /// Links a filled record on top of its entry's history: settles the newest, sets the links, seals, swaps the head.
  /// False, and nothing linked, if `unless_removed` and the newest record is a removal. errc::invalid_argument, and
  /// nothing linked, if the history is as deep as one can be.
  [[nodiscard]] bool link_on_top(link entry, link fresh, std::uint32_t seed, bool unless_removed) const;
  /// The same error, if nothing can be linked on the newest record of the entry.
  void require_room_above(link entry) const { Heads::require_room_above(entry, newest(entry)); }
  /// Lets a batch happen: all its records are linked. Returns its version.
  version complete_batch(link batch) const;

 private:
  /// find_from() behind a newest record that is too new and not the only one.
  [[nodiscard]] link find_older(link newest, version newest_stamped, version v) const;
  [[nodiscard]] link find_by_jumps(link newest, version v) const;
  [[nodiscard]] bool wait_until_committed(link entry, link l) const;
  void persist_record(link l) const;
  void set_links(record fresh, link entry, link older) const;
  [[nodiscard]] link jump_of(link l) const { return at(l).is_entry() ? l : followed(l, told_jump_of(l)); }
  /// Where a whole record says that its jump leads; an entry: to itself. Whether an older record lies there is asked by
  /// who follows the link (jump_of()): until then its line need not be fetched.
  [[nodiscard]] link told_jump_of(link l) const {
    const record r = at(l);
    if (r.is_entry()) return l;
    verify_checksum(l);
    return r.as_update().jump;
  }
};

using rebuilt_histories = basic_histories<rebuilt_heads>;
using durable_histories = basic_histories<durable_heads>;

extern template class basic_histories<rebuilt_heads>;
extern template class basic_histories<durable_heads>;

}  // namespace icecore
