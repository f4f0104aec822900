// Heads that are durable (H7, H8): opening reads none of them, so whatever they lead to is checked when it is read.
// durable_heads.cpp explains why this is correct.
#pragma once

#include "base/locks/process_lock.hpp"
#include "history/heads/history_base.hpp"

namespace icecore {

/// What durable heads need to check on the media. Opening has read nothing there, so media may hold anything.
class record_checks {
 public:
  /// Whether `bytes` bytes at `l` lie in the pool.
  [[nodiscard]] virtual bool leads_into_pool(link l, std::uint64_t bytes) const noexcept = 0;
  /// Whether a record with a correct checksum lies at `l`.
  [[nodiscard]] virtual bool is_intact(link l) const noexcept = 0;
  /// Raises errc::damaged: something at `l` has changed.
  [[noreturn]] virtual void raise_damaged(link l, const char* what) const = 0;
  /// The lock that a thread holds while it sets a head back (H8); shared by all processes that share the store.
  [[nodiscard]] virtual recovering_lock hold_heads() const = 0;

 protected:
  ~record_checks() = default;
};

class durable_heads : public history_base {
 public:
  static constexpr bool are_durable = true;
  static constexpr bool run_ahead_of_clock = false;

  /// Links below `sound_below` lead into the pool.
  durable_heads(history_parts parts, const record_checks& checks, link sound_below)
      : history_base(std::move(parts)), checks_(&checks), sound_below_(sound_below) {}
  /// The same for heads that opening has computed and then made durable.
  durable_heads(history_base&& recovered, const record_checks& checks, link sound_below)
      : history_base(std::move(recovered)), checks_(&checks), sound_below_(sound_below) {}

  /// All records of versions greater than this one were written since the store was opened: they are shown without
  /// verification. Only before other threads use the store.
  void set_unverified_up_to(version newest_found) noexcept { unverified_up_to_ = newest_found; }

  /// For this and the next functions see rebuilt_heads. They raise errc::damaged if they find damage.
  [[nodiscard, gnu::always_inline]] version stamp_of(link l) const {
    // acquire: a thread that sees the stamp sees the record; pairs with the CAS that set it
    const std::uint64_t word = at(l).header().stamp.load(std::memory_order_acquire);
    if (word == 0) return stamp(l);
    if (!codec_.valid(word, l + format::stamp_offset)) [[unlikely]]
      return resolve_stamp(l, word);
    return word & format::stamp_version_mask;
  }
  [[nodiscard]] newest_record newest_and_head(link entry) const {
    return checked_newest(entry,
                          at(entry).as_entry().head.load(std::memory_order_seq_cst));  // seq_cst: H3, reader's side
  }
  [[nodiscard]] static std::uint64_t head_word(link newest) noexcept { return newest; }
  [[nodiscard]] link start_of(link entry, version v) const {
    // loaded before the entry's stamp; seq_cst: H3, the reader's side
    const std::uint64_t head = at(entry).as_entry().head.load(std::memory_order_seq_cst);
    if (stamp_of(entry) > v) return null_link;  // all others are newer (H1)
    return unchecked_newest(entry, head).newest;
  }
  [[nodiscard]] link start_of_change(link entry, version low, version high) const {
    // loaded before the entry's stamp; seq_cst: H3, the reader's side
    const std::uint64_t head = at(entry).as_entry().head.load(std::memory_order_seq_cst);
    const version first = stamp_of(entry);
    if (first > high) return null_link;  // all others are newer (H1)
    const link newest = unchecked_newest(entry, head).newest;
    return newest == entry && first <= low ? null_link : newest;
  }
  [[gnu::always_inline]] void check_start(link entry, link start) const {
    if (start == entry) return;
    const record r = at(start);
    if (!r.is_update() || r.as_update().entry != entry) [[unlikely]]
      checks_->raise_damaged(entry, "the entry's head does not lead to a record of its key");
  }
  /// The entry's line does not tell.
  [[nodiscard]] static version removal_after_first(link /*entry*/, version /*v*/) noexcept { return 0; }
  [[nodiscard]] link followed(link from, link to) const {
    require_older(from, to);
    return to;
  }
  /// Raises errc::damaged if the record, which is about to be shown, is not intact. A large value is not covered.
  void verify_checksum(link l) const {
    const std::uint64_t word = at(l).header().stamp.load(std::memory_order_relaxed);  // relaxed: it was read before
    if ((word & format::stamp_version_mask) > unverified_up_to_ && codec_.valid(word, l + format::stamp_offset))
        [[likely]]
      return;
    if (!checks_->is_intact(l)) [[unlikely]]
      checks_->raise_damaged(l, "the record fails its checksum");
  }
  /// Flushes the record's lines and the head that leads to it.
  void flush_fresh(link fresh, std::uint64_t bytes) const noexcept {
    if (!persist_on_read_) return;
    const record r = at(fresh);
    // read it before the flush: a read of a line that is on its way to the medium waits until the line has arrived
    const link entry = r.is_update() ? r.as_update().entry : null_link;
    persist_->flush(r.address(), bytes);
    if (entry != null_link) flush_head(entry);
  }

  // ---- For writes ----
  [[nodiscard]] bool leads_to_newest(link entry, std::uint64_t head, std::uint64_t right) const {
    if (head == right) [[likely]]
      return true;
    set_head_back(entry);  // H8
    return false;
  }
  [[nodiscard]] bool was_taken_back(link entry, link newest) const { return newest_and_head(entry).newest != newest; }
  void before_link(link entry, std::uint64_t head) const { advance_committed_to(entry, head); }  // H7
  /// Advances the committed head for the writer's pending commit. The write itself did not: directly after its fence
  /// the entry's line was still on its way to the medium, so an atomic change of it would have waited.
  void commit_pending(const written_record& pending) const noexcept { advance_committed(pending); }
  /// After await_flushed(): advances the committed head for an update (H7), or leaves that to the writer's next write
  /// as the pending commit.
  void commit(const written_record& w, version /*stamped*/, written_record& pending) const noexcept {
    if (persist_on_read_) {
      pending = w;
    } else {
      advance_committed(w);
    }
  }
  /// Advances the committed head now.
  void advance_committed(const written_record& w) const noexcept {
    if (w.entry != null_link) advance_committed(w.entry, w.before, w.at);
  }
  /// The same; the committed head is durable after the next fence.
  void commit_durably(const written_record& w) const noexcept {
    if (w.entry == null_link) return;
    advance_committed(w);
    if (persist_on_read_) flush_head(w.entry);
  }

  /// While opening: puts `update`, which counts, into its entry's history if it is not there.
  void restore(link update) const;

  // ---- For dead writers (store/persistent/dead_writers.hpp) ----
  /// Whether a sealed update outside a batch was linked.
  [[nodiscard]] bool was_linked(link update) const;
  /// The version of a sealed batch record; if all its records were linked, its batch takes effect now. Otherwise 0.
  [[nodiscard]] version roll_forward_batch(link batch) const noexcept { return stamp_batch(batch); }
  /// Unlinks a sealed update of a batch that will never take effect, and flushes the head without a fence. Other
  /// threads may still read the record, so its bytes and its batch's must stay as they are.
  void unlink(link update) const;

 private:
  version stamp(link l) const;
  /// What the head leads to, a place in the pool; check_start() then looks at what is there.
  [[nodiscard, gnu::always_inline]] newest_record unchecked_newest(link entry, std::uint64_t head) const {
    // acquire: what it links to is durable (H7)
    if (head != at(entry).as_entry().committed_head().load(std::memory_order_acquire)) [[unlikely]]
      return resolve_head(entry);
    if (head == null_link) return {entry, head};
    // Head and committed head may be equal and both damaged. The checks of the record they lead to notice that, as long
    // as they lead into the pool.
    if (head >= sound_below_ || head % 8 != 0 || head == entry) [[unlikely]]
      require_place(entry, head);
    return {head, head};
  }
  [[nodiscard]] newest_record checked_newest(link entry, std::uint64_t head) const {
    const newest_record found = unchecked_newest(entry, head);
    check_start(entry, found.newest);
    return found;
  }
  void require_place(link entry, link head) const;
  [[nodiscard]] newest_record resolve_head(link entry) const;
  void set_head_back(link entry) const;
  [[nodiscard]] version resolve_stamp(link l, std::uint64_t word) const;
  [[nodiscard]] bool is_followed(link l) const;
  [[nodiscard]] bool is_intact_update_of(link l, link entry) const noexcept;
  [[nodiscard]] bool is_on_top_of(link l, link entry, std::uint64_t committed) const noexcept;
  void require_older(link from, link to) const;
  void advance_committed_to(link entry, std::uint64_t head) const;
  void advance_committed(link entry, std::uint64_t before, link now) const noexcept;
  void flush_head(link entry) const noexcept {
    static_assert(offsetof(format::entry_header, beside_head) == offsetof(format::entry_header, head) + 8);
    persist_->flush(&at(entry).as_entry().head, 2 * sizeof(std::uint64_t));
  }

  const record_checks* checks_;
  link sound_below_;
  version unverified_up_to_ = version_max;
};

}  // namespace icecore
