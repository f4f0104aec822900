// What a kept query asks: written once, when the query starts, and read by every process that continues it.
//
// Threads: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "icecore/query.hpp"
#include "pool/query/query_space.hpp"

namespace icecore::detail {

inline constexpr std::uint64_t part_keys_min = 16'384;  ///< a part has about as many keys at least
inline constexpr std::size_t parts_max = query_parts_max;

struct query_definition {
  std::string name;
  version at = 0;
  query_keeps keeps = query_keeps::keys;
  std::int64_t created_ns = 0;
  std::vector<std::byte> filter;     ///< its stored form
  std::vector<std::byte> select;     ///< the stored form of the projection; empty if no columns are kept
  std::vector<std::byte> totals;     ///< the stored form of the aggregation; empty if there are none
  key_bounds within;                 ///< nothing outside of these can match
  std::vector<std::string> borders;  ///< the first keys of all parts but the first

  [[nodiscard]] std::size_t parts() const noexcept { return borders.size() + 1; }
  /// The keys of one part.
  [[nodiscard]] key_bounds bounds_of(std::size_t part) const;

  [[nodiscard]] std::vector<std::byte> encoded() const;
  /// errc::damaged, with `what` before it, if these bytes are no definition.
  [[nodiscard]] static query_definition decoded(std::span<const std::byte> bytes, const std::string& what);
};

}  // namespace icecore::detail
