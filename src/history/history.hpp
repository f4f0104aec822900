// One key's versions: an append-only, lock-free list of records from newest to oldest. The first thread that needs a
// record's stamp sets it.
//
// Based on versioned CAS (Wei et al., PPoPP 2021) with the append-only per-key histories and lazily completed writes of
// IPDPS 2022 (section IV); the jump links are Myers' skew-binary ones (1983). An explicit-state model checks the
// protocol for single records; docs/design/0001-histories.md describes the protocol and what batches add.
//
// A write:  fill the record, see that the newest is stamped and durable (H2), set the links, seal, CAS the entry's
//           head, stamp, persist.
// A read:   stamp the newest if it has no stamp (stamp-on-read), walk to the first record <= version, persist what is
//           returned if it is not durable yet (persist-on-read).
//
// Threads: all functions from any thread.
// Cost: append O(1); find O(log depth).
// Invariants:
//   H1. Along a history from newest to oldest, stamps never increase and depth falls by one with each record.
//   H2. A record is linked only on one that is stamped and, under operation durability, durable. So a record found
//       valid after a crash has all its older ones. (In the other modes, and where durability is deferred on page
//       media, a certificate covers whole histories.)
//   H3. A record that a reader of closed version v did not see gets a stamp > v. The reason: a stamp is a clock value
//       read after linking. The reader loads the head with sequential consistency, after the tick that closed v. If
//       that load came before the link, the clock read comes after the tick. A new key's link is a store into the
//       index, and a fence orders it before the clock read. If an index makes readers wait from before the clock read
//       until after the link (a leaf's lock), the writer may read the clock and stamp the record before linking it: a
//       reader that did not wait looked before the clock was read.
//   H4. A stamp, once set, never changes. Every record of a batch carries the stamp of its batch record, which may be
//       set only once all records of the batch are linked (and under operation durability durable): stamp_ready.
//   H5. Under operation durability the persisted bit is set only after record and stamp are durable.
//   H6. An entry's cached second version, once not 0, is the stamp of the record of depth 2. That stamp never changes
//       (H4), and that record is stamped and as durable as a reader needs it; where durability is deferred, if a sync
//       covers that version. One word, the head, holds both the link to the second record and the bit that says that it
//       is a removal. So most finds of keys with one or two versions read only the entry's cache line. If the cached
//       version or the bit is missing, a find must read the newest record; the result is the same.
//   H7. In a store with durable heads (the persistent index), the word of the cached second version holds the
//       *committed head* instead: a value that the head has had, stored after the record it links to was durable. The
//       committed head is stored before the head moves on, so it equals the head or the head's previous value. That
//       also holds on media: both words lie in one line, or the first is flushed before the second is stored. A head
//       that differs from the committed head leads to a record of this entry on top of the committed one or, after a
//       crash, to bytes that never became one: then the committed head is the head. So no crash loses a key's history,
//       and opening need not read any of it.
//   H8. Only a writer of the entry replaces a head that leads to no record of its entry, and only by the committed
//       head. It does so under one lock (hold_heads()), before any writer seals a record of the entry. Readers change
//       no head. So what a holder of the lock has found about a head stays true until the holder has set it back,
//       although the space that the head leads to is reused (durable_heads.cpp).
#pragma once

#include <cassert>

#include "history/heads/durable_heads.hpp"
#include "history/heads/history_base.hpp"
#include "history/heads/observed_heads.hpp"
#include "history/heads/rebuilt_heads.hpp"

namespace icecore {

/// What an entry's newest record must be for another one to be linked on it.
struct newest_condition {
  enum class what : std::uint8_t {
    anything,
    a_value,     ///< the key is there
    no_value,    ///< the key is not there
    of_version,  ///< the key is there, since this version
  };
  what it_is = what::anything;
  version since = 0;
  /// Whether it holds if the newest value is of this version; 0: there is none.
  [[nodiscard]] bool holds_for(version there) const noexcept {
    switch (it_is) {
      case what::anything:
        return true;
      case what::a_value:
        return there != 0;
      case what::no_value:
        return there == 0;
      case what::of_version:
        return there != 0 && there == since;
    }
    return false;
  }
  /// Where the history is an entry without a value: the version of the value that older layers show, or 0.
  version below = 0;
};

/// `Heads`, rebuilt_heads, durable_heads or observed_heads, finds which record of an entry is its newest. With the
/// last, nothing is written.
template <class Heads>
class basic_histories final : public Heads {
 public:
  using Heads::at;
  using Heads::followed;
  using Heads::Heads;
  using Heads::newest_and_head;
  using Heads::stamp_of;
  using Heads::verify_checksum;
  /// Where to start the search for what `entry` shows in closed version `v`, read from the entry's own cache line:
  /// null_link if no value is visible; otherwise a record to pass to check_start() and then to find_from(), which is
  /// the entry itself if that is the record shown. No other line is read, so that a caller can ask for the records of
  /// many entries first. With version_max the answer holds for some moment during the call; null_link then means that
  /// at that moment the newest record was a removal or there was none.
  using Heads::start_of;
  /// Where to start the search for what `entry` shows in closed version `high`; null_link if the entry's own cache line
  /// tells that it shows the same in closed version `low`, which is older.
  using Heads::start_of_change;
  /// Before anything else is done with what start_of() or start_of_change() returned for `entry`. Raises errc::damaged
  /// if no record of the entry is there.
  using Heads::check_start;
  /// The version of the record that `entry` shows in version `v`, if its own cache line tells that this is a removal of
  /// the value that the entry itself holds; else 0. That record is as durable as a read of it must be. `v` is closed or
  /// version_max, which means the same as for start_of().
  using Heads::removal_after_first;

  // ---- One record ----
  [[nodiscard]] bool is_removal(link l) const noexcept { return at(l).is_removal(); }
  [[nodiscard]] bool is_lost(link l) const noexcept { return at(l).is_lost(); }
  /// An entry without a value: it is no change.
  [[nodiscard]] bool shows_nothing(link l) const noexcept { return at(l).layout().is_key_alone(); }
  /// Of the entry that it belongs to. A record that is the entry itself is known to be intact.
  [[nodiscard]] std::string_view key_of_record(link l) const {
    const record r = at(l);
    if (r.is_entry()) return r.key();
    verify_checksum(r.as_update().entry);
    return at(r.as_update().entry).key();
  }
  [[gnu::always_inline]] void prefetch(link l) const noexcept { this->space_.prefetch(l); }

  /// The newest record of an entry: the entry's own first one, or what its head links to.
  [[nodiscard]] link newest(link entry) const { return newest_and_head(entry).newest; }

  /// The record that `entry` shows in closed version `v`: a removal, an insert, or null_link if there was none yet.
  [[nodiscard]] link find_at(link entry, version v) const {
    const link l = newest(entry);
    // The oldest record lies in the entry, which is already read. If it is too new, all records are (H1): none is read.
    return stamp_of(entry) > v ? null_link : find_from(l, v);
  }
  /// The same, starting from a record of the entry.
  [[nodiscard]] link find_from(link newest, version v) const {
    const version stamped = stamp_of(newest);
    if (stamped != 0 && stamped <= v) return newest;
    return at(newest).is_entry() ? null_link : find_older(newest, stamped, v);
  }
  /// The newest record that has taken effect; null_link if none has.
  [[nodiscard]] link find_latest(link entry) const { return find_latest_from(newest(entry)); }
  /// The same, starting from the newest record of the entry.
  [[nodiscard]] link find_latest_from(link newest) const {
    if (stamp_of(newest) != 0) return newest;
    return older(newest);  // of a batch that is not ready: the one below is stamped (H2)
  }
  /// The next older record of the same history, or null_link.
  [[nodiscard]] link older(link l) const {
    const record r = at(l);
    return r.is_update() ? followed(l, r.as_update().older) : null_link;
  }

  /// Returns when the record is as durable as a read of it must be (persist-on-read). The caller has no writer: a
  /// deferred store may sync, which waits for all writers. May throw errc::poisoned.
  [[gnu::always_inline]] void persist_before_return(link l) const {
    persist_before_link(l);
    if (this->synced_ != nullptr) this->synced_->require(stamp_of(l));
  }
  /// Returns when the record is as durable as one that is linked on top of it demands (H2), or as what tells a writer
  /// of it: in a deferred store the next sync makes both durable. May throw errc::poisoned.
  [[gnu::always_inline]] void persist_before_link(link l) const {
    // acquire: if the bit is set, another thread has completed the flush and the fence (H5)
    if (this->persist_on_read_ && (at(l).header().stamp.load(std::memory_order_acquire) & format::stamp_persisted) == 0)
      persist_record(l);
  }
  /// Whether the entry's newest record is a removal. If so, it is then stamped and as durable as a read of it must be.
  [[nodiscard, gnu::always_inline]] bool is_removed(link entry) const {
    for (;;) {
      const link top = newest(entry);
      verify_checksum(top);
      if (!at(top).is_removal()) return false;
      if (wait_until_committed(entry, top)) return true;
    }
  }

  /// Whether the entry's newest record is as demanded. That record is then stamped and as durable as a read of it must
  /// be, whatever the answer, since the answer tells of it.
  [[nodiscard]] bool newest_is(link entry, newest_condition wanted) const {
    for (;;) {
      const link top = newest(entry);
      verify_checksum(top);
      if (wait_until_committed(entry, top)) return is_as(top, wanted);
    }
  }

  /// Links a filled record on top of its entry's history: waits until the newest record is stamped and durable, sets
  /// the links, seals, swaps the head. Returns false and links nothing if the newest record is not as demanded: the
  /// swap of the head decides, so nothing comes between that record and the one that is linked. Raises
  /// errc::invalid_argument and links nothing if the history has the greatest possible depth.
  [[nodiscard]] bool link_on_top(link entry, link fresh, std::uint32_t seed, newest_condition wanted) const;
  /// The same, inlined for a caller that knows the record's layout when it is compiled.
  [[nodiscard, gnu::always_inline]] bool link_on_top(link entry, link fresh, record_layout layout, std::uint32_t seed,
                                                     newest_condition wanted) const;
  /// Raises the same error if nothing can be linked on the newest record of the entry.
  void require_room_above(link entry) const { Heads::require_room_above(entry, newest(entry)); }
  /// Makes a batch, whose records are all linked, take effect. Returns its version.
  version complete_batch(link batch) const;

 private:
  /// The part of find_from() for a newest record that is too new and not the only one.
  [[nodiscard]] link find_older(link newest, version newest_stamped, version v) const;
  [[nodiscard]] link find_by_jumps(link newest, version v) const;
  /// For a find that met a deep history without samples: samples some of its records.
  void sample_further(link newest) const;
  /// Returns true when the entry's newest record is stamped and as durable as the mode requires. Returns false if it is
  /// no longer the newest: it was of a batch whose process was killed.
  [[nodiscard, gnu::always_inline]] bool wait_until_committed(link entry, link l) const {
    if (stamp_of(l) == 0 && !wait_for_stamp(entry, l)) return false;
    persist_before_link(l);
    return true;
  }
  [[nodiscard]] bool wait_for_stamp(link entry, link l) const;
  /// For a record that is stamped.
  [[nodiscard, gnu::always_inline]] bool is_as(link l, newest_condition wanted) const {
    if (wanted.it_is == newest_condition::what::anything) return true;
    const bool is_removal = at(l).is_removal();
    const version there = !is_removal ? stamp_of(l) : at(l).layout().is_key_alone() ? wanted.below : 0;
    return wanted.holds_for(there);
  }
  void persist_record(link l) const;
  [[gnu::always_inline]] void set_links(record fresh, link entry, link older) const;
  /// Where the jump of a record leads whose older record is `older`, which has this depth and is not the only one
  /// below.
  [[nodiscard]] link jump_over(link older, std::uint32_t depth) const;
  [[nodiscard]] link jump_of(link l) const { return at(l).is_entry() ? l : followed(l, claimed_jump_of(l)); }
  /// Where the jump of a record leads, after verifying the record's checksum; for an entry, the entry itself. It does
  /// not check that an older record lies there: jump_of() does when it follows the link, so until then that line need
  /// not be fetched.
  [[nodiscard]] link claimed_jump_of(link l) const {
    const record r = at(l);
    if (r.is_entry()) return l;
    verify_checksum(l);
    return r.as_update().jump;
  }
};

template <class Heads>
inline void basic_histories<Heads>::set_links(record fresh, link entry, link older) const {
  auto& u = fresh.as_update();
  const std::uint32_t depth = at(older).header().depth;
  assert(depth < format::depth_max);
  assert(older == entry || at(older).as_update().entry == entry);
  constexpr std::uint32_t depth_min = 3;  // below this no two jumps are equally long
  u.entry = entry;
  u.older = older;
  u.record.depth = depth + 1;
  u.jump = depth < depth_min ? older : jump_over(older, depth);
}

template <class Heads>
inline bool basic_histories<Heads>::link_on_top(link entry, link fresh, record_layout layout, std::uint32_t seed,
                                                newest_condition wanted) const {
  auto& head = at(entry).as_entry().head;
  const record r = at(fresh);
  for (;;) {
    const auto [top, head_then] = newest_and_head(entry);
    std::uint64_t seen = top == entry ? null_link : Heads::head_word(top);
    if (!Heads::leads_to_newest(entry, head_then, seen)) continue;
    if (!wait_until_committed(entry, top)) continue;  // H1, H2
    Heads::before_link(entry, seen);
    verify_checksum(top);
    if (!is_as(top, wanted)) return false;
    Heads::require_room_above(entry, top);
    // H2; relaxed: an assertion, wait_until_committed() acquired it
    assert(at(top).header().stamp.load(std::memory_order_relaxed) != 0);
    set_links(r, entry, top);
    r.seal(layout, seed);
    const std::uint64_t made = Heads::head_word(fresh);
    // seq_cst: H3, the writer's side; includes the release that publishes the record
    if (head.compare_exchange_strong(seen, made, std::memory_order_seq_cst, std::memory_order_relaxed)) return true;
  }
}

using rebuilt_histories = basic_histories<rebuilt_heads>;
using durable_histories = basic_histories<durable_heads>;
using observed_histories = basic_histories<observed_heads>;

extern template class basic_histories<rebuilt_heads>;
extern template class basic_histories<durable_heads>;

}  // namespace icecore
