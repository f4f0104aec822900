// Heads that opening recomputes: nothing durable depends on them, and opening has read everything they lead to.
#pragma once

#include "history/heads/history_base.hpp"

namespace icecore {

class rebuilt_heads : public history_base {
 public:
  using history_base::history_base;

  /// False: the index may lead to an entry before the entry is stamped and durable.
  static constexpr bool are_durable = false;
  static constexpr bool run_ahead_of_clock = false;

  /// The version of a record; stamps it if it has no stamp. 0: its batch has not taken effect yet.
  [[nodiscard, gnu::always_inline]] version stamp_of(link l) const noexcept { return stamp_of_own(l); }

  [[nodiscard, gnu::always_inline]] newest_record newest_and_head(link entry) const noexcept {
    const std::uint64_t head = at(entry).as_entry().head.load(std::memory_order_seq_cst);  // seq_cst: H3, reader's side
    return {newest_of(entry, head), head};
  }
  /// The head word of an entry whose newest record is this update.
  [[nodiscard]] std::uint64_t head_word(link newest) const noexcept {
    const record r = at(newest);
    return r.header().depth == 2 && r.is_removal() ? newest | format::head_is_second_removal : newest;
  }
  /// See basic_histories::start_of().
  [[nodiscard, gnu::always_inline]] link start_of(link entry, version v) const noexcept {
    const auto& e = at(entry).as_entry();
    const std::uint64_t head = e.head.load(std::memory_order_seq_cst);  // seq_cst: H3, the reader's side
    if (stamp_of(entry) > v) return null_link;                          // all others are newer (H1)
    if (head == null_link) return entry;
    // acquire: a thread that sees it can rely on the record being stamped and durable (H6)
    const version second = e.cached_second_version().load(std::memory_order_acquire);
    if (second != 0) {
      if (second > v) return entry;
      // the removal was the newest record when the head was read, above: a third one's stamp is greater than v (H3)
      // Where no sync has covered it yet, its record is returned, so that it is made durable.
      if ((head & format::head_is_second_removal) != 0 && covered(second)) return null_link;
    }
    return newest_of(entry, head);
  }
  /// See basic_histories::start_of_change().
  [[nodiscard, gnu::always_inline]] link start_of_change(link entry, version low, version high) const noexcept {
    const auto& e = at(entry).as_entry();
    const std::uint64_t head = e.head.load(std::memory_order_seq_cst);  // seq_cst: H3, the reader's side
    const version first = stamp_of(entry);
    if (first > high) return null_link;  // all others are newer (H1)
    // acquire, and why these answers hold: as in start_of()
    const version second = head == null_link ? 0 : e.cached_second_version().load(std::memory_order_acquire);
    if (head == null_link || second > high) return first > low ? entry : null_link;
    const bool second_is_last = second != 0 && (head & format::head_is_second_removal) != 0;
    return second_is_last && second <= low ? null_link : newest_of(entry, head);
  }
  /// See basic_histories::check_start(): opening has checked it.
  static void check_start(link /*entry*/, link /*start*/) noexcept {}
  /// See basic_histories::removal_after_first().
  [[nodiscard, gnu::always_inline]] version removal_after_first(link entry, version v) const noexcept {
    const auto& e = at(entry).as_entry();
    // seq_cst: H3, the reader's side
    if ((e.head.load(std::memory_order_seq_cst) & format::head_is_second_removal) == 0) return 0;
    // acquire, and why the answer holds: as in start_of()
    const version second = e.cached_second_version().load(std::memory_order_acquire);
    return second <= v && covered(second) && !at(entry).is_removal() ? second : 0;
  }
  [[nodiscard]] static link followed(link /*from*/, link to) noexcept { return to; }
  static void verify_checksum(link /*l*/) noexcept {}

  /// Under operation durability: flushes the lines of a sealed and stamped record.
  void flush_fresh(link fresh, std::uint64_t bytes) const noexcept {
    if (persist_on_read_) persist_->flush(at(fresh).address(), bytes);
  }

  // ---- For writes ----
  /// Whether the head leads to the entry's newest record; if not, the head is set back.
  [[nodiscard]] static bool leads_to_newest(link /*entry*/, std::uint64_t /*head*/, std::uint64_t /*right*/) noexcept {
    return true;
  }
  [[nodiscard]] static bool was_taken_back(link /*entry*/, link /*newest*/) noexcept { return false; }
  static void before_link(link /*entry*/, std::uint64_t /*head*/) noexcept {}
  static void commit_pending(const written_record& /*pending*/) noexcept {}
  /// Stores a second record's version in its entry (H6). Once for each record, after it is stamped and await_flushed().
  void commit(const written_record& w, version stamped, written_record& /*pending*/) const noexcept {
    // release: H6
    if (w.is_second) at(w.entry).as_entry().cached_second_version().store(stamped, std::memory_order_release);
  }
};

}  // namespace icecore
