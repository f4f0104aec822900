// Histories that begin in the young generation and go on in strata. It has the reading functions of basic_histories,
// and answers as that would if all records were young.
//
//   const layered_histories<rebuilt_heads> histories(young, strata);
//   for (link l = histories.find_at(entry, v); l != null_link; l = histories.older(l)) ...
//
// An "entry" is here what stands for a key: its entry in the young generation or, if it has none there, its newest
// packed record. A key has records in the young generation, in strata, or in both; the young ones are newer.
//
// Threads: all functions from any thread. Cost: that of the young generation, and where it shows nothing that of
// stratum::strata::find().
// Invariants:
//   Y1. All young records are newer than all packed ones. So where a young record shows something, no packed one is
//       asked.
//   Y2. A young entry without a value (record_layout::is_key_alone()) shows nothing: it is no removal of what is
//   packed.
#pragma once

#include <optional>

#include "history/history.hpp"
#include "store/packed/packed_link.hpp"

namespace icecore::detail {

template <class Heads>
class layered_histories {
 public:
  using young_histories = basic_histories<Heads>;

  layered_histories(const young_histories& young, const stratum::strata& packed) noexcept
      : young_(&young), packed_(&packed) {}

  [[nodiscard]] const stratum::strata& packed() const noexcept { return *packed_; }

  // ---- One record ----
  /// A young record.
  [[nodiscard]] record at(link l) const noexcept { return young_->at(l); }
  [[nodiscard]] bool is_removal(link l) const {
    return is_packed(l) ? packed_->record(place_of(l)).is_removal() : young_->is_removal(l);
  }
  [[nodiscard]] bool is_lost(link l) const noexcept { return !is_packed(l) && young_->is_lost(l); }
  [[nodiscard]] bool shows_nothing(link l) const noexcept { return !is_packed(l) && young_->shows_nothing(l); }
  [[nodiscard]] version stamp_of(link l) const {
    return is_packed(l) ? packed_->record(place_of(l)).stamped : young_->stamp_of(l);
  }
  [[nodiscard]] std::string_view key_of_record(link l) const {
    return is_packed(l) ? packed_->key(place_of(l)) : young_->key_of_record(l);
  }
  /// Packed ones were checked when they were found.
  void verify_checksum(link l) const {
    if (!is_packed(l)) young_->verify_checksum(l);
  }
  void persist_before_return(link l) const {
    if (!is_packed(l)) young_->persist_before_return(l);
  }
  [[gnu::always_inline]] void prefetch(link l) const noexcept { young_->prefetch(l); }

  // ---- A key's records ----
  /// The newest packed record of a key whose version is at most `v`: a removal, an insert, or null_link.
  [[nodiscard]] link packed_at(std::string_view key, version v) const {
    const auto found = packed_->find(key, v);
    return found ? packed_link(*found) : null_link;
  }
  /// The value that packed records show for the key in version `v`.
  [[nodiscard]] std::optional<std::string_view> packed_value(std::string_view key, version v) const {
    return packed_->shown(packed_->find_record(key, v));
  }
  [[nodiscard]] link newest(link entry) const { return is_packed(entry) ? entry : young_->newest(entry); }
  [[nodiscard]] link start_of(link entry, version v) const {
    if (is_packed(entry)) {
      const auto found = packed_->shown_at_most(place_of(entry), v);
      return found ? packed_link(*found) : null_link;
    }
    const link start = young_->start_of(entry, v);
    if (start != null_link || young_->stamp_of(entry) <= v) return start;
    return shown(packed_at(at(entry).key(), v));
  }
  [[nodiscard]] link start_of_change(link entry, version low, version high) const {
    if (!is_packed(entry)) {
      const link start = young_->start_of_change(entry, low, high);
      if (start != null_link) return start;
      // An entry of a batch that has not taken effect has no stamp: what is packed of its key decides. Once it has one,
      // that is greater than `high` (H3).
      const version first = young_->stamp_of(entry);
      if (first != 0 && first <= high) return null_link;
    }
    const link then = is_packed(entry) ? packed_from(entry, high) : packed_at(at(entry).key(), high);
    return then == null_link || stamp_of(then) <= low ? null_link : then;
  }
  void check_start(link entry, link start) const {
    if (!is_packed(start)) young_->check_start(entry, start);
  }
  [[nodiscard]] version removal_after_first(link entry, version v) const {
    return is_packed(entry) ? 0 : young_->removal_after_first(entry, v);
  }
  [[nodiscard]] link find_at(link entry, version v) const {
    return is_packed(entry) ? packed_from(entry, v) : below_if_nothing(young_->find_at(entry, v), entry, v);
  }
  [[nodiscard]] link find_from(link newest, version v) const {
    return is_packed(newest) ? packed_from(newest, v) : below_if_nothing(young_->find_from(newest, v), newest, v);
  }
  [[nodiscard]] link find_latest(link entry) const { return find_latest_from(newest(entry)); }
  [[nodiscard]] link find_latest_from(link newest) const {
    return is_packed(newest) ? newest : below_if_nothing(young_->find_latest_from(newest), newest, version_max);
  }
  [[nodiscard]] link older(link l) const {
    if (!is_packed(l)) return below_if_nothing(young_->older(l), l, version_max);
    const auto found = packed_->older(place_of(l));
    return found ? packed_link(*found) : null_link;
  }

  /// What writes compare with where the young generation has nothing: the version of the value that packed records
  /// show for the key; 0 if they show none.
  [[nodiscard]] version packed_value_version(std::string_view key) const {
    const std::optional<stratum::packed_record> found = packed_->find_record(key, version_max);
    return !found || found->is_removal() ? 0 : found->stamped;
  }

 private:
  [[nodiscard]] link young_entry_of(link l) const noexcept {
    const record r = at(l);
    return r.is_entry() ? l : r.as_update().entry;
  }
  [[nodiscard]] link packed_from(link newest, version v) const {
    const auto found = packed_->at_most(place_of(newest), v);
    return found ? packed_link(*found) : null_link;
  }
  /// null_link for a removal.
  [[nodiscard]] link shown(link l) const { return l == null_link || is_removal(l) ? null_link : l; }
  /// `found` in the history of the young record `of`; or what is packed of its key if `found` shows nothing.
  [[nodiscard]] link below_if_nothing(link found, link of, version v) const {
    if (found != null_link && !young_->shows_nothing(found)) return found;  // Y1, Y2
    return packed_at(at(young_entry_of(of)).key(), v);
  }

  const young_histories* young_;
  const stratum::strata* packed_;
};

}  // namespace icecore::detail
