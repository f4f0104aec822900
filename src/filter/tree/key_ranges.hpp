// The ranges of keys outside of which a condition cannot be true, so that a scan seeks them and leaves out the rest.
//
//   key >= 'a' and key < 'c' or starts_with(key, 'x/')   →   ['a', 'c')  ['x/', 'x0')
//
// Threads: pure. Cost: O(nodes · ranges).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "filter/tree/node.hpp"

namespace icecore::detail {

/// from <= key < to; without `to` up to the last key.
struct key_range {
  std::string from;
  std::optional<std::string> to;

  friend bool operator==(const key_range&, const key_range&) = default;
};

/// Ascending and disjoint; empty if nothing can match, one range of all keys if nothing is known.
[[nodiscard]] std::vector<key_range> key_ranges_of(const node& tree);

}  // namespace icecore::detail
