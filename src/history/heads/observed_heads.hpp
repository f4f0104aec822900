// Heads in a process that reads a store beside the one that writes it: those of the records that this process has read
// (store/beside/settled_records.hpp). The heads in the entries are the writer's, and move all the time. So the newest
// record of each entry that has more than one is in a table of this process's own.
//
// A reader never meets a record that is not stamped, and stamps none: it changes nothing in the store.
//
// Threads: all functions from any thread; reserve() and raise() as they state.
#pragma once

#include <memory>
#include <vector>

#include "base/checksum.hpp"
#include "history/heads/history_base.hpp"

namespace icecore {

/// The newest record of entries. A hash table with open addressing.
//
// Readers take no lock. When the table is full, a new one is made, complete, before readers see it, and the old one
// stays for those that read it just now. They may miss what is raised meanwhile: then it is of a version that was shown
// to nobody when they began.
class newest_records {
 public:
  newest_records() { reserve(0); }

  /// null_link if the entry has no other record.
  [[nodiscard]] link of(link entry) const noexcept {
    const table& t = *now_.load(std::memory_order_acquire);  // acquire: its slots were filled
    for (std::size_t i = mix64(entry) & t.mask;; i = (i + 1) & t.mask) {
      // relaxed: a caller that looks for a version learned of it after all its records had been raised
      const link there = t.slots[i].entry.load(std::memory_order_relaxed);
      if (there == entry) return t.slots[i].newest.load(std::memory_order_acquire);  // acquire: the record is there
      if (there == null_link) return null_link;
    }
  }
  /// Hints that of(entry) is called soon.
  [[gnu::always_inline]] void prefetch(link entry) const noexcept {
    const table& t = *now_.load(std::memory_order_acquire);  // acquire: as of()
    __builtin_prefetch(&t.slots[mix64(entry) & t.mask]);
  }

  /// Makes room for so many entries more. One thread at a time, and none that raises.
  void reserve(std::size_t more);
  /// `newest` becomes the entry's newest record unless `is_older` says that the one which is there is not older.
  /// Several threads may do this at once. Room was reserved.
  template <typename IsOlder>
  void raise(link entry, link newest, IsOlder is_older) noexcept;

 private:
  struct slot {
    std::atomic<link> entry{null_link};
    std::atomic<link> newest{null_link};
  };
  struct table {
    explicit table(std::size_t size) : slots(std::make_unique<slot[]>(size)), mask(size - 1) {}
    std::unique_ptr<slot[]> slots;
    std::size_t mask;
  };

  std::vector<std::unique_ptr<table>> tables_;  // the last one is in use
  std::atomic<table*> now_{nullptr};
  std::atomic<std::size_t> used_{0};
};

template <typename IsOlder>
void newest_records::raise(link entry, link newest, IsOlder is_older) noexcept {
  table& t = *tables_.back();
  for (std::size_t i = mix64(entry) & t.mask;; i = (i + 1) & t.mask) {
    slot& s = t.slots[i];
    link there = s.entry.load(std::memory_order_relaxed);  // relaxed: see of()
    if (there == null_link && s.entry.compare_exchange_strong(there, entry, std::memory_order_relaxed)) {
      used_.fetch_add(1, std::memory_order_relaxed);  // relaxed: read by reserve(), when nobody raises
      there = entry;
    }
    if (there != entry) continue;
    link known = s.newest.load(std::memory_order_relaxed);
    while ((known == null_link || is_older(known)) &&
           !s.newest.compare_exchange_weak(known, newest, std::memory_order_release, std::memory_order_relaxed)) {
    }
    return;
  }
}

class observed_heads : public history_base {
 public:
  using history_base::history_base;

  static constexpr bool are_durable = false;
  /// A refresh raises heads, and extends the index, before the clock moves.
  static constexpr bool run_ahead_of_clock = true;

  [[nodiscard]] newest_records& heads() noexcept { return newest_; }

  /// The version of a record, all of which are stamped.
  [[nodiscard, gnu::always_inline]] version stamp_of(link l) const noexcept { return stamped_already(space_, l); }
  [[nodiscard, gnu::always_inline]] newest_record newest_and_head(link entry) const noexcept {
    const link newest = newest_.of(entry);
    return {newest == null_link ? entry : newest, newest};
  }
  /// See basic_histories::start_of().
  [[nodiscard, gnu::always_inline]] link start_of(link entry, version v) const noexcept {
    newest_.prefetch(entry);
    if (stamp_of(entry) > v) return null_link;  // all others are newer (H1)
    return newest_and_head(entry).newest;
  }
  /// See basic_histories::start_of_change().
  [[nodiscard, gnu::always_inline]] link start_of_change(link entry, version low, version high) const noexcept {
    const version first = stamp_of(entry);
    if (first > high) return null_link;  // all others are newer (H1)
    const link newest = newest_.of(entry);
    if (newest != null_link) return newest;
    return first > low ? entry : null_link;
  }
  /// See basic_histories::check_start(): opening has checked it.
  static void check_start(link /*entry*/, link /*start*/) noexcept {}
  /// See basic_histories::removal_after_first().
  [[nodiscard]] static version removal_after_first(link /*entry*/, version /*v*/) noexcept { return 0; }
  [[nodiscard]] static link followed(link /*from*/, link to) noexcept { return to; }
  static void verify_checksum(link /*l*/) noexcept {}

 private:
  newest_records newest_;
};

}  // namespace icecore
