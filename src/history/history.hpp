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
//       to is used again (lasting_heads.cpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/process_lock.hpp"
#include "history/clock.hpp"
#include "history/record.hpp"
#include "history/version_samples.hpp"
#include "pool/persist.hpp"

namespace icecore {

/// The addresses behind links: base[pool] + offset.
class address_space {
 public:
  /// Behind the numbers of files: memory with records that stand for lost ones.
  static constexpr std::uint16_t stand_in_pool = format::files_max;
  static_assert(stand_in_pool < link_pool(format::head_is_second_removal), "a head has a bit beside the link");

  explicit address_space(std::byte* pool_0) noexcept { bases_[0] = pool_0; }
  /// By pool number.
  explicit address_space(std::span<std::byte* const> pools) noexcept { std::ranges::copy(pools, bases_.begin()); }
  [[nodiscard]] std::byte* at(link l) const noexcept { return bases_[link_pool(l)] + link_offset(l); }
  [[nodiscard]] record record_at(link l) const noexcept { return record(at(l)); }
  /// Before any other thread is there.
  void set_base(std::uint16_t pool, std::byte* base) noexcept { bases_[pool] = base; }

 private:
  std::array<std::byte*, stand_in_pool + 1> bases_{};
};

/// What histories ask where nothing was read at opening: media may hold anything.
class record_checks {
 public:
  /// Whether `l` can be followed for `bytes`.
  [[nodiscard]] virtual bool leads_into_pool(link l, std::uint64_t bytes) const noexcept = 0;
  /// Whether a record with a right checksum lies at `l`.
  [[nodiscard]] virtual bool is_whole(link l) const noexcept = 0;
  /// errc::damaged: something at `l` is not what it was.
  [[noreturn]] virtual void raise_damaged(link l, const char* what) const = 0;
  /// Held by whoever sets a head back (H8), of all processes that share the store.
  [[nodiscard]] virtual mended_lock hold_heads() const = 0;

 protected:
  ~record_checks() = default;
};

class histories {
 public:
  histories(address_space space, version_clock& clock, word_codec codec, persistence& persist, bool persist_on_read)
      : space_(space),
        clock_(&clock),
        codec_(codec),
        persist_(&persist),
        persist_on_read_(persist_on_read),
        samples_(std::make_unique<version_samples>()) {}

  /// From now on heads last (H7), and what is read is checked as it is, but for what believe_after() says. Links below
  /// `sound_below` lead into the pool. Before any other thread is there.
  void let_heads_last(const record_checks& checks, link sound_below) noexcept {
    checks_ = &checks;
    sound_below_ = sound_below;
  }
  [[nodiscard]] bool heads_last() const noexcept { return checks_ != nullptr; }
  /// `look` is called by who waits long for another's write: what processes that were killed have left unfinished is
  /// finished, or undone, when it returns, or it throws errc::poisoned. Before any other thread is there.
  void let_waits_look(std::function<void()> look) noexcept { look_after_killed_ = std::move(look); }

  [[nodiscard]] record at(link l) const noexcept { return space_.record_at(l); }
  [[nodiscard]] const address_space& space() const noexcept { return space_; }
  /// Before any other thread is there.
  [[nodiscard]] address_space& space() noexcept { return space_; }
  /// Whether operation durability holds: nothing is returned that is not durable.
  [[nodiscard]] bool persists_on_read() const noexcept { return persist_on_read_; }

  /// The newest record of an entry: the entry's own first one, or what its head links to.
  [[nodiscard]] link newest(link entry) const { return newest_and_head(entry).newest; }

  /// Asks for the newest record of an entry, for whoever has something to do before the update that will be linked on
  /// it.
  void prefetch_newest(link entry) const noexcept {
    const std::uint64_t head = at(entry).as_entry().head.load(std::memory_order_relaxed);  // relaxed: a hint
    __builtin_prefetch(space_.at(newest_of(entry, head)));
  }

  /// The version a record belongs to, stamping it if nobody has. 0: it is of a batch that has not happened yet.
  [[nodiscard, gnu::always_inline]] version stamp_of(link l) const {
    // acquire: whoever sees the stamp sees the record; pairs with the CAS that set it
    const std::uint64_t word = at(l).header().stamp.load(std::memory_order_acquire);
    if (heads_last() && word != 0 && !codec_.valid(word, l + format::stamp_offset)) [[unlikely]]
      return doubted_stamp(l, word);
    return word != 0 ? word & format::stamp_version_mask : stamp(l);
  }

  /// The same of a record that this thread has sealed.
  [[nodiscard]] version stamp_of_own(link l) const noexcept {
    const std::uint64_t word = at(l).header().stamp.load(std::memory_order_acquire);  // acquire: as in stamp_of()
    return word != 0 ? word & format::stamp_version_mask : stamp_sealed(l);
  }

  /// Where to look for what `entry` shows in closed version `v`, as its own cache line tells: null_link if no value is
  /// visible; otherwise a record to pass to find_from(), the entry itself if it is the one shown. With version_max: as
  /// of some moment during the call, at which, if null_link comes back, the newest record was a removal or none was.
  [[nodiscard, gnu::always_inline]] link start_of(link entry, version v) const {
    const auto& e = at(entry).as_entry();
    const std::uint64_t head = e.head.load(std::memory_order_seq_cst);  // seq_cst: H3, the reader's side
    const version first = stamp_of(entry);
    if (first > v) return null_link;  // all others are newer (H1)
    if (heads_last()) return newest(entry);
    if (head == null_link) return entry;
    // acquire: whoever sees it may rely on the record's being stamped and durable (H6)
    const version second = e.second_version.load(std::memory_order_acquire);
    if (second != 0) {
      if (second > v) return entry;
      // newest when the head was read, before this: a third one's stamp is greater than v (H3)
      if ((head & format::head_is_second_removal) != 0) return null_link;
    }
    return newest_of(entry, head);
  }

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
  [[nodiscard]] link find_latest_from(link newest) const;
  /// The record before this one in its history, or null_link.
  [[nodiscard]] link older(link l) const {
    const record r = at(l);
    return r.is_update() ? followed(l, r.as_update().older) : null_link;
  }

  /// Returns when the record is as durable as a read of it must be (persist-on-read). May throw errc::poisoned.
  void persist_before_return(link l) const {
    if (persist_on_read_) persist_record(l);
  }

  /// Whether the entry's newest record is a removal; stamped then, and as durable as a read of it must be.
  [[nodiscard]] bool is_removed(link entry) const {
    for (;;) {
      const link top = newest(entry);
      require_whole(top);
      if (!at(top).is_removal()) return false;
      if (settle(entry, top)) return true;
    }
  }

  /// Links a filled record on top of its entry's history: settles the newest, sets the links, seals, swaps the head.
  /// False, and nothing linked, if `unless_removed` and the newest record is a removal. errc::invalid_argument, and
  /// nothing linked, if the history is as deep as one can be.
  [[nodiscard]] bool link_on_top(link entry, link fresh, std::uint32_t seed, bool unless_removed) const;
  /// The same error, if nothing can be linked on the newest record of the entry.
  void require_room_above(link entry) const { require_room_above(entry, newest(entry)); }

  /// Stamps a sealed record that nobody else can see yet, while readers who look for it wait (H3).
  void stamp_unseen(link fresh) const noexcept;

  /// Under operation durability: sends the lines of a sealed and stamped record on their way to the medium; with them
  /// the head that leads to it, where heads last.
  void flush_fresh(link fresh, std::uint64_t bytes) const noexcept {
    if (!persist_on_read_) return;
    const record r = at(fresh);
    // read first: a line that is on its way to the medium is not read before it is there
    const link entry = heads_last() && r.is_update() ? r.as_update().entry : null_link;
    persist_->flush(r.address(), bytes);
    if (entry != null_link) flush_head(entry);
  }
  /// What the end of a write needs of its record: read before flush_fresh(), for reading the line behind the fence
  /// would wait for it, and keep the next operation's reads waiting.
  struct written {
    link at;
    std::uint64_t stamp;
    link entry = null_link;    ///< of an update
    std::uint64_t before = 0;  ///< of an update: its entry's head before it
    bool is_second = false;    ///< of its entry
  };
  [[nodiscard]] written written_of(link l) const noexcept {
    const record r = at(l);
    written w{.at = l, .stamp = r.header().stamp.load(std::memory_order_relaxed)};  // relaxed: this thread has seen it
    if (r.is_update()) {
      w.entry = r.as_update().entry;
      w.before = head_of_older(r);
      w.is_second = r.header().depth == 2;
    }
    return w;
  }
  /// Under operation durability: returns when what flush_fresh() sent is there. May throw errc::poisoned.
  void await_flushed(const written& fresh) const {
    if (!persist_on_read_) return;
    persist_->sync();
    // release: H5. Whoever else marks it writes the same
    at(fresh.at).header().stamp.store(fresh.stamp | format::stamp_persisted, std::memory_order_release);
  }

  /// The same of several.
  void await_flushed(std::span<const link> fresh) const {
    if (!persist_on_read_ || fresh.empty()) return;
    persist_->sync();
    for (const link l : fresh) set_persisted(l);
  }

  /// Notes where a deep history's record is (version_samples.hpp). Once a record, after it is stamped.
  void sample(link l) const {
    const record r = at(l);
    if (version_samples::wanted(r.header().depth)) add_sample(r, l);
  }

  /// Notes a second record's version in its entry (H6), or that an update is settled (H7). Once a record, after it is
  /// stamped and await_flushed().
  void note_second(link l) const { note_second(written_of(l), stamp_of(l)); }
  void note_second(const written& w, version stamped) const {
    if (w.entry == null_link) return;
    if (heads_last()) {
      note_settled(w);
      return;
    }
    if (!w.is_second) return;
    // release: H6
    at(w.entry).as_entry().second_version.store(stamped, std::memory_order_release);
  }
  /// Whether a writer notes that its update is settled with its next write, by note_settled(): right behind the fence
  /// the entry's line is still on its way to the medium, and an atomic change of it would wait.
  [[nodiscard]] bool settles_late() const noexcept { return heads_last() && persist_on_read_; }
  void note_settled(const written& w) const noexcept {
    if (w.entry != null_link) note_settled(w.entry, w.before, w.at);
  }
  /// The same, durable with the next fence.
  void settle_durably(const written& w) const noexcept {
    if (w.entry == null_link) return;
    note_settled(w);
    if (persist_on_read_) flush_head(w.entry);
  }
  /// The head of an entry whose newest record is this update.
  [[nodiscard]] std::uint64_t head_word(link newest) const noexcept {
    const record r = at(newest);
    if (heads_last()) return newest;
    return r.header().depth == 2 && r.is_removal() ? newest | format::head_is_second_removal : newest;
  }
  /// The newest record of an entry whose head was read.
  [[nodiscard]] static link newest_of(link entry, std::uint64_t head) noexcept {
    return head == null_link ? entry : head & ~format::head_is_second_removal;
  }

  /// The fence between publishing a new key's entry in the index and stamping it (H3).
  static void fence_after_index_publish() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }

  /// All that lies in these segments up to their positions is durable already. Before the first operation only.
  template <typename Places>
  void set_durable(const Places& places) {
    durable_.clear();
    for (const auto& p : places) durable_.push_back({p.in.offset, p.position});
    std::ranges::sort(durable_, {}, &durable_range::begin);
  }

  /// Lets a batch happen: all its records are linked. Returns its version.
  version complete_batch(link batch) const;

  /// Where heads last: errc::damaged if the record, which is about to be shown, is not intact but for a large value.
  void require_whole(link l) const {
    if (!heads_last()) return;
    const std::uint64_t word = at(l).header().stamp.load(std::memory_order_relaxed);  // relaxed: it was read before
    if ((word & format::stamp_version_mask) > believed_after_ && codec_.valid(word, l + format::stamp_offset))
        [[likely]]
      return;
    if (!checks_->is_whole(l)) [[unlikely]]
      checks_->raise_damaged(l, "the record fails its checksum");
  }
  /// All records of versions greater than this one were written since the store was opened: they are shown without
  /// being checked. Before any other thread is there.
  void believe_after(version newest_found) noexcept { believed_after_ = newest_found; }
  /// Where heads last, while opening: `update` counts, so the entry's history has it.
  void restore(link update) const;

  // ---- Of a writer whose process was killed, where heads last (store/killed_writers.hpp) ----
  /// Whether a sealed update of no batch was linked.
  [[nodiscard]] bool was_linked(link update) const;
  /// The version of a sealed batch record, whose batch happens now if all its records were linked; else 0.
  [[nodiscard]] version finish_batch(link batch) const noexcept { return stamp_batch(batch); }
  /// Takes a sealed update of a batch that will never happen out of its history. The head is on its way to the media.
  /// Others may still read the record: its bytes, and its batch's, must stay as they are.
  void unlink(link update) const;

 private:
  struct durable_range {
    link begin;
    link end;
  };

  /// An entry's newest record, and the head that told so: it leads there, or, where heads last, to no record (H8).
  struct newest_told {
    link newest;
    std::uint64_t head;
  };

  [[nodiscard, gnu::always_inline]] newest_told newest_and_head(link entry) const {
    const auto& e = at(entry).as_entry();
    const std::uint64_t head = e.head.load(std::memory_order_seq_cst);  // seq_cst: H3, the reader's side
    return heads_last() ? checked_newest(entry, head) : newest_told{newest_of(entry, head), head};
  }
  version stamp(link l) const;
  version stamp_sealed(link l) const noexcept;
  /// find_from() behind a newest record that is too new and not the only one.
  [[nodiscard]] link find_older(link newest, version newest_stamped, version v) const;
  [[nodiscard]] link find_by_jumps(link newest, version v) const;
  version stamp_batch(link batch) const noexcept;
  [[nodiscard]] bool settle(link entry, link l) const;
  void require_room_above(link entry, link top) const;
  void add_sample(record r, link l) const;
  void persist_record(link l) const;
  /// A store will do: the record is stamped, so that this bit is all that can still change of its word (H4), and
  /// whoever else sets it stores the same.
  void set_persisted(link l) const noexcept {
    auto& stamp = at(l).header().stamp;
    // relaxed: whoever stamped it had this thread see it; release: H5
    stamp.store(stamp.load(std::memory_order_relaxed) | format::stamp_persisted, std::memory_order_release);
  }
  [[nodiscard]] bool was_durable_at_opening(link l) const noexcept;
  void set_links(record fresh, link entry, link older) const;
  [[nodiscard]] link jump_of(link l) const { return at(l).is_entry() ? l : followed(l, told_jump_of(l)); }
  /// Where a whole record says that its jump leads; an entry: to itself. Whether an older record lies there is asked by
  /// who follows the link (jump_of()): until then its line need not be fetched.
  [[nodiscard]] link told_jump_of(link l) const {
    const record r = at(l);
    if (r.is_entry()) return l;
    require_whole(l);
    return r.as_update().jump;
  }

  // lasting_heads.cpp: out of line, so that finds of other stores are small enough to be inlined
  [[nodiscard]] newest_told checked_newest(link entry, std::uint64_t head) const;
  [[nodiscard]] newest_told doubted_newest(link entry) const;
  void set_head_back(link entry) const;
  [[nodiscard]] version doubted_stamp(link l, std::uint64_t word) const;
  [[nodiscard]] bool is_followed(link l) const;
  [[nodiscard]] bool is_whole_update_of(link l, link entry) const noexcept;
  [[nodiscard]] bool is_on_top_of(link l, link entry, std::uint64_t settled) const noexcept;
  [[nodiscard]] link followed(link from, link to) const {
    if (heads_last()) require_older(from, to);
    return to;
  }
  void require_older(link from, link to) const;
  void settle_head(link entry, std::uint64_t head) const;
  void note_settled(link entry, std::uint64_t before, link now) const noexcept;
  void flush_head(link entry) const noexcept {
    static_assert(offsetof(format::entry_header, second_version) == offsetof(format::entry_header, head) + 8);
    persist_->flush(&at(entry).as_entry().head, 2 * sizeof(std::uint64_t));
  }
  /// The head of the entry before this update was linked.
  [[nodiscard]] static std::uint64_t head_of_older(record update) noexcept {
    const auto& u = update.as_update();
    return u.older == u.entry ? null_link : u.older;
  }

  address_space space_;
  version_clock* clock_;
  word_codec codec_;
  persistence* persist_;
  bool persist_on_read_;
  const record_checks* checks_ = nullptr;  // where heads last
  link sound_below_ = null_link;
  std::function<void()> look_after_killed_;
  version believed_after_ = version_max;
  std::vector<durable_range> durable_;  // ascending
  std::unique_ptr<version_samples> samples_;
};

}  // namespace icecore
