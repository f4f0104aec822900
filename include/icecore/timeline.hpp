// Many versions in one pass over each key's history: when a filter held for a key, and totals of many versions at once.
//
//   for (const auto& [key, first, last] : s.during(filter("value = 'on'"), 1, 20)) ...   // held from first to last
//   const icecore::many_versions months = s.each({10, 20, 30});
//   months.count(dear);  months.sum(dear, "qty", 2);                                  // a number for each version
//
// Filters read of a row what those of a snapshot do: `key`, `value`, columns, and `version`, that of the record shown.
//
// Threads: a range belongs to one thread; many_versions is a value. Lifetime: views are valid as long as the range.
// Cost: O(keys + records of these versions), however many versions there are: the filter is evaluated once for a
//   record, whatever versions show it; expressions of totals once for a record and version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <string_view>
#include <vector>

#include "icecore/filter.hpp"
#include "icecore/filtered.hpp"
#include "icecore/pin.hpp"
#include "icecore/snapshot.hpp"

namespace [[gnu::visibility("default")]] icecore {

/// Versions in which a filter held for a key without a break, both included.
struct stretch {
  std::string_view key;
  icecore::version first;
  icecore::version last;
  friend bool operator==(const stretch&, const stretch&) = default;
};

/// Stretches by key, then by version: a C++ input range. It must stay in its place while it is iterated.
class stretch_range : public std::ranges::view_interface<stretch_range> {
 public:
  using iterator = range_iterator<stretch_range, stretch>;

  stretch_range(pin holds, icecore::version from, icecore::version up_to, key_bounds bounds, filter where);
  ~stretch_range();
  stretch_range(stretch_range&&) noexcept;
  stretch_range& operator=(stretch_range&&) noexcept;

  /// Starts or restarts at the first stretch.
  [[nodiscard]] iterator begin() &;
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  struct walk;
  friend iterator;
  void step();
  [[nodiscard]] bool at_end() const noexcept;
  [[nodiscard]] const stretch& current() const noexcept;

  std::unique_ptr<walk> walk_;
};

/// Totals of many versions: element i of each answer is that of versions()[i].
class many_versions {
 public:
  many_versions(pin holds, std::vector<icecore::version> versions);

  /// As they were given.
  [[nodiscard]] const std::vector<icecore::version>& versions() const noexcept { return versions_; }
  /// How many items match. `threads`: 0 for all cores.
  [[nodiscard]] std::vector<std::uint64_t> count(const filter& condition = {}, unsigned threads = 1) const;
  /// Of an expression over the matches, as snapshot::sum(), min() and max().
  [[nodiscard]] std::vector<std::optional<result_number>> sum(const filter& condition, std::string_view expression,
                                                              unsigned threads = 1) const;
  [[nodiscard]] std::vector<std::optional<result_number>> min(const filter& condition, std::string_view expression,
                                                              unsigned threads = 1) const;
  [[nodiscard]] std::vector<std::optional<result_number>> max(const filter& condition, std::string_view expression,
                                                              unsigned threads = 1) const;

 private:
  pin holds_;
  std::vector<icecore::version> versions_;
  std::vector<icecore::version> sorted_;  // ascending, each once
  std::vector<std::size_t> place_;        // of each of versions_ in sorted_
};

}  // namespace icecore
