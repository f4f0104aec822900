// Heads that are durable (H7, H8): opening reads none of them, so whatever they lead to is checked when it is met.
// The argument is told in durable_heads.cpp.
#pragma once

#include "base/locks/process_lock.hpp"
#include "history/heads/history_base.hpp"

namespace icecore {

/// What durable heads ask of the media, of which nothing was read at opening: media may hold anything.
class record_checks {
 public:
  /// Whether `l` can be followed for `bytes`.
  [[nodiscard]] virtual bool leads_into_pool(link l, std::uint64_t bytes) const noexcept = 0;
  /// Whether a record with a right checksum lies at `l`.
  [[nodiscard]] virtual bool is_intact(link l) const noexcept = 0;
  /// errc::damaged: something at `l` is not what it was.
  [[noreturn]] virtual void raise_damaged(link l, const char* what) const = 0;
  /// Held by whoever sets a head back (H8), of all processes that share the store.
  [[nodiscard]] virtual recovering_lock hold_heads() const = 0;

 protected:
  ~record_checks() = default;
};

class durable_heads : public history_base {
 public:
  static constexpr bool are_durable = true;

  /// Links below `sound_below` lead into the pool.
  durable_heads(history_parts parts, const record_checks& checks, link sound_below)
      : history_base(std::move(parts)), checks_(&checks), sound_below_(sound_below) {}
  /// The same of heads that opening has computed, and then made durable.
  durable_heads(history_base&& recovered, const record_checks& checks, link sound_below)
      : history_base(std::move(recovered)), checks_(&checks), sound_below_(sound_below) {}

  /// All records of versions greater than this one were written since the store was opened: they are shown without
  /// being checked. Before any other thread is there.
  void set_unverified_up_to(version newest_found) noexcept { unverified_up_to_ = newest_found; }

  /// See rebuilt_heads, of all that follow. errc::damaged if something is not what it was.
  [[nodiscard, gnu::always_inline]] version stamp_of(link l) const {
    // acquire: whoever sees the stamp sees the record; pairs with the CAS that set it
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
    // before the entry's stamp; seq_cst: H3, the reader's side
    const std::uint64_t head = at(entry).as_entry().head.load(std::memory_order_seq_cst);
    if (stamp_of(entry) > v) return null_link;  // all others are newer (H1)
    return checked_newest(entry, head).newest;
  }
  [[nodiscard]] link followed(link from, link to) const {
    require_older(from, to);
    return to;
  }
  /// errc::damaged if the record, which is about to be shown, is not intact but for a large value.
  void verify_checksum(link l) const {
    const std::uint64_t word = at(l).header().stamp.load(std::memory_order_relaxed);  // relaxed: it was read before
    if ((word & format::stamp_version_mask) > unverified_up_to_ && codec_.valid(word, l + format::stamp_offset))
        [[likely]]
      return;
    if (!checks_->is_intact(l)) [[unlikely]]
      checks_->raise_damaged(l, "the record fails its checksum");
  }
  /// With the record's lines, the head that leads to it.
  void flush_fresh(link fresh, std::uint64_t bytes) const noexcept {
    if (!persist_on_read_) return;
    const record r = at(fresh);
    // read first: a line that is on its way to the medium is not read before it is there
    const link entry = r.is_update() ? r.as_update().entry : null_link;
    persist_->flush(r.address(), bytes);
    if (entry != null_link) flush_head(entry);
  }

  // ---- What a write asks ----
  [[nodiscard]] bool leads_to_newest(link entry, std::uint64_t head, std::uint64_t right) const {
    if (head == right) [[likely]]
      return true;
    set_head_back(entry);  // H8
    return false;
  }
  [[nodiscard]] bool was_taken_back(link entry, link newest) const { return newest_and_head(entry).newest != newest; }
  void before_link(link entry, std::uint64_t head) const { advance_committed_to(entry, head); }  // H7
  /// What the writer's last write left to its next one: right behind the fence the entry's line was still on its way to
  /// the medium, and an atomic change of it would have waited.
  void commit_pending(const written_record& pending) const noexcept { advance_committed(pending); }
  /// An update is settled (H7), or will be by the writer's next write. After await_flushed().
  void commit(const written_record& w, version /*stamped*/, written_record& pending) const noexcept {
    if (persist_on_read_) {
      pending = w;
    } else {
      advance_committed(w);
    }
  }
  /// It is settled at once.
  void advance_committed(const written_record& w) const noexcept {
    if (w.entry != null_link) advance_committed(w.entry, w.before, w.at);
  }
  /// The same, durable with the next fence.
  void commit_durably(const written_record& w) const noexcept {
    if (w.entry == null_link) return;
    advance_committed(w);
    if (persist_on_read_) flush_head(w.entry);
  }

  /// While opening: `update` counts, so the entry's history has it.
  void restore(link update) const;

  // ---- Of a writer whose process was killed (store/persistent/dead_writers.hpp) ----
  /// Whether a sealed update of no batch was linked.
  [[nodiscard]] bool was_linked(link update) const;
  /// The version of a sealed batch record, whose batch happens now if all its records were linked; else 0.
  [[nodiscard]] version roll_forward_batch(link batch) const noexcept { return stamp_batch(batch); }
  /// Takes a sealed update of a batch that will never happen out of its history. The head is on its way to the media.
  /// Others may still read the record: its bytes, and its batch's, must stay as they are.
  void unlink(link update) const;

 private:
  version stamp(link l) const;
  [[nodiscard]] newest_record checked_newest(link entry, std::uint64_t head) const;
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
