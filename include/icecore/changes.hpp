// What was written between two versions: all changes of each key, and how a filter chooses among them and among the
// differences of two versions.
//
//   auto found = s.changes(17, 20).where(dear);                 // all that was written in the versions 18, 19 and 20
//   for (const icecore::key_change& c : found) use(c.key, c.version, c.value, c.before);
//   s.changes(17, 20).count(filter("removed"));
//   s.diff(17, 20).where(filter("before.price < price", trade));
//
// In filters of changes `version` is the version of the change, `value` is what was written (null for a removal),
// `removed` tells a removal, `before.value` is what the key showed before, and `first` says that the key never had a
// value before.
//
// Threads: a range belongs to one thread. Lifetime: views are valid as long as the range that they came from.
// Cost: as long as the keys with changes are at most a sixteenth of all, or 2,048, that of what was written:
//   - in packed versions (compaction.hpp) that of the blocks which may have a record of these versions: each block's
//     oldest and newest version is known. And a look at eight bytes for each block, which has some 170 small records;
//   - in versions behind these that of the records written since the older one, if the store has been open since then
//     and they are within the last 128 MiB written; else O(keys written since the store was packed).
//   Where they are more, and after opening a store that was never packed: O(keys of the store) + O(records of these
//   versions), whatever the filter; with the index `hash` the keys are sorted first: O(n log n).
//   Memory: 8 bytes for each key with changes, 16 for each change of one key.
// Source: extract_history, IPDPS 2022, section II, for all keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <string_view>

#include "icecore/filter.hpp"
#include "icecore/filtered.hpp"
#include "icecore/pin.hpp"
#include "icecore/snapshot.hpp"

namespace [[gnu::visibility("default")]] icecore {

/// One insert or removal of a key. A removal of a key that was not there changes nothing and is none.
struct key_change {
  std::string_view key;
  icecore::version version;
  std::optional<std::string_view> value;   ///< empty: the key was removed
  std::optional<std::string_view> before;  ///< what the key showed before; empty: it was not there
  bool first;                              ///< the key never had a value before
  friend bool operator==(const key_change&, const key_change&) = default;
};

/// The changes in a range of versions, by key, then by version; a key that was written several times in one version
/// has a change for each time, the oldest first. A C++ input range. It must stay in its place while it is iterated.
class change_range : public std::ranges::view_interface<change_range> {
 public:
  using iterator = range_iterator<change_range, key_change>;

  change_range(pin holds, icecore::version after, icecore::version up_to, key_bounds bounds, filter where);
  ~change_range();
  change_range(change_range&&) noexcept;
  change_range& operator=(change_range&&) noexcept;

  /// Those of the changes that match as well.
  [[nodiscard]] change_range where(const filter& condition) const;
  /// How many match. `threads`: 0 for all cores.
  [[nodiscard]] std::uint64_t count(const filter& condition = {}, unsigned threads = 1) const;
  /// Of an expression over the matches, as snapshot::sum(), min() and max().
  [[nodiscard]] std::optional<result_number> sum(const filter& condition, std::string_view expression,
                                                 unsigned threads = 1) const;
  [[nodiscard]] std::optional<result_number> min(const filter& condition, std::string_view expression,
                                                 unsigned threads = 1) const;
  [[nodiscard]] std::optional<result_number> max(const filter& condition, std::string_view expression,
                                                 unsigned threads = 1) const;

  /// Starts or restarts at the first match.
  [[nodiscard]] iterator begin() &;
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  struct walk;
  friend iterator;
  void step();
  [[nodiscard]] bool at_end() const noexcept;
  [[nodiscard]] const key_change& current() const noexcept;
  [[nodiscard]] filter with(const filter& condition) const;

  std::unique_ptr<walk> walk_;
};

/// The differences between two versions that a filter matches, in key order: a C++ input range. It must stay in its
/// place while it is iterated. `value` is the value after, `before.value` the one before, `removed` says that there is
/// none after, `first` that there was none before. `version` is refused (errc::invalid_argument): a difference may
/// come from many versions.
class filtered_differences : public std::ranges::view_interface<filtered_differences> {
 public:
  using iterator = range_iterator<filtered_differences, difference>;

  filtered_differences(pin holds, icecore::version before, icecore::version after, const key_bounds& bounds,
                       filter where);
  ~filtered_differences();
  filtered_differences(filtered_differences&&) noexcept;
  filtered_differences& operator=(filtered_differences&&) noexcept;

  /// Starts or restarts at the first match.
  [[nodiscard]] iterator begin() &;
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  struct walk;
  friend iterator;
  void step();
  [[nodiscard]] bool at_end() const noexcept;
  [[nodiscard]] const difference& current() const noexcept;

  std::unique_ptr<walk> walk_;
};

}  // namespace icecore
