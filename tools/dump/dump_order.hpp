// Visits all records of a store by version, although a store keeps them by key.
//
// One pass over all histories counts the records. Then ranges of versions that hold at most `records_in_memory` records
// are collected as views, sorted and visited, with one pass per range. A single version with more records than that
// needs no sorting: its records are visited in key order as they are found.
//
// Memory: 16 bytes per key, and 48 bytes for each of min(records, records_in_memory). Time: one pass, and one more for
// each `records_in_memory` records. The store must not be written meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "icecore/store.hpp"

namespace icecore::cli {

struct versioned_record {
  icecore::version version;
  std::string_view key;
  std::optional<std::string_view> value;  ///< empty: the key was removed
};

class version_order {
 public:
  /// Counts the records. O(records).
  version_order(const store& from, std::uint64_t records_in_memory);

  [[nodiscard]] std::uint64_t records() const noexcept { return records_; }

  /// Calls `visit` for each record: versions ascending, keys ascending within a version, and the records of one key
  /// within a version oldest first. An exception of `visit` ends the visits.
  void for_each(const std::function<void(const versioned_record&)>& visit) const;

 private:
  using visitor = std::function<void(const versioned_record&)>;
  struct span {
    version first;
    version last;
    std::uint64_t records;
  };

  [[nodiscard]] std::vector<span> split(const span& whole) const;
  void visit_span(const span& part, const visitor& visit) const;
  void visit_sorted(const span& part, const visitor& visit) const;
  void visit_single_version(version at, const visitor& visit) const;
  template <typename Each>
  void for_each_of(std::string_view key, version first, version last, Each&& each) const;

  const store* from_;
  std::uint64_t records_in_memory_;
  pinned_list<std::string_view> keys_;
  std::uint64_t records_ = 0;
};

}  // namespace icecore::cli
