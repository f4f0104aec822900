// Records as changes: what a record changed, and rows of changes for filters. Walks by key and feeds are made of these.
//
// Threads: a block belongs to one thread.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "filter/program.hpp"
#include "icecore/changes.hpp"
#include "store/engine.hpp"
#include "store/read/scan.hpp"

namespace icecore::detail {

struct change_at {
  version at;
  link record;
};

/// Whether the record is a removal of a key that was not there: batches record these, and entries without a value look
/// like them. It changes nothing.
template <class Engine>
[[nodiscard]] bool changes_nothing(const Engine& engine, link record) {
  const auto& histories = engine.histories();
  if (!histories.is_removal(record)) return false;
  if (histories.shows_nothing(record)) return true;
  const link before = histories.older(record);
  if (before == null_link) return true;
  histories.verify_checksum(before);
  return histories.is_removal(before);
}

/// Appends the changes of an entry in (after, up_to], oldest first. They are as durable as a read of them must be.
/// O(log records of the key + changes).
template <class Engine>
void append_changes(const Engine& engine, link entry, version after, version up_to, std::vector<change_at>& out) {
  const auto& histories = engine.histories();
  const auto begun = static_cast<std::ptrdiff_t>(out.size());
  bool is_newest = true;
  for (link l = histories.find_at(entry, up_to); l != null_link; l = histories.older(l)) {
    const version stamped = histories.stamp_of(l);
    if (stamped <= after) break;  // and all older ones (H1)
    histories.verify_checksum(l);
    if (is_newest) histories.persist_before_return(l);  // and so are the older ones (H2)
    is_newest = false;
    if (!changes_nothing(engine, l)) out.push_back({stamped, l});
  }
  std::reverse(out.begin() + begun, out.end());
}

/// What the key showed before a change: the record with the value, or null_link; and whether it never had a value.
struct state_before {
  link shown = null_link;
  bool never = true;
};

template <class Engine>
[[nodiscard]] state_before before_change(const Engine& engine, link record) {
  const auto& histories = engine.histories();
  state_before found;
  for (link l = histories.older(record); l != null_link; l = histories.older(l)) {
    histories.verify_checksum(l);
    if (histories.is_removal(l)) continue;
    found.never = false;
    if (l == histories.older(record)) found.shown = l;
    break;
  }
  return found;
}

/// Up to rows_max changes, as filters read them.
class change_block {
 public:
  void clear() noexcept {
    rows_ = {};
    rows_.keys = keys_.data();
    rows_.values = values_.data();
    rows_.versions = versions_.data();
    rows_.before = before_.data();
  }
  [[nodiscard]] bool full() const noexcept { return rows_.size == rows_max; }
  [[nodiscard]] const rows& as_rows() const noexcept { return rows_; }

  /// Precondition: not full.
  template <class Engine>
  void add(const Engine& engine, const change_at& what, needs_of reads) {
    const std::size_t i = rows_.size++;
    const row_mask bit = row_mask{1} << i;
    const bool removed = engine.histories().is_removal(what.record);
    keys_[i] = key_of_record(engine, what.record);
    versions_[i] = what.at;
    values_[i] = removed || !reads.value ? std::string_view() : engine.value_of(what.record);
    before_[i] = {};
    if (removed) rows_.removed |= bit;
    if (!reads.changes) return;
    const state_before then = before_change(engine, what.record);
    if (then.never) rows_.first |= bit;
    if (then.shown == null_link) return;
    rows_.has_before |= bit;
    before_[i] = engine.value_of(then.shown);
  }
  /// The rows are items of a snapshot: changes of an empty store.
  void set_all_first() noexcept { rows_.first = rows_.mask(); }
  /// Precondition: all of it was read.
  [[nodiscard]] key_change change(std::size_t i) const {
    const auto is = [i](row_mask mask) { return (mask >> i & 1U) != 0; };
    key_change c{keys_[i], versions_[i], {}, {}, is(rows_.first)};
    if (!is(rows_.removed)) c.value = values_[i];
    if (is(rows_.has_before)) c.before = before_[i];
    return c;
  }

 private:
  rows rows_;
  std::array<std::string_view, rows_max> keys_;
  std::array<std::string_view, rows_max> values_;
  std::array<std::string_view, rows_max> before_;
  std::array<version, rows_max> versions_;
};

/// All that a key_change shows.
inline constexpr needs_of whole_change{.value = true, .version = true, .changes = true};

}  // namespace icecore::detail
