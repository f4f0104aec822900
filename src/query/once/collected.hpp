// Totals and columns as callers see them, of what threads have collected part by part.
//
// Threads: pure.
#pragma once

#include <bit>
#include <optional>
#include <vector>

#include "filter/results/aggregation.hpp"
#include "filter/results/projection.hpp"
#include "icecore/filtered.hpp"

namespace icecore::detail {

/// Empty if nothing was folded, or the sum is out of range.
[[nodiscard]] inline std::optional<result_number> number_of(const aggregation& of, std::size_t i,
                                                            const fold_state& state) {
  const fold_result found = of.result(i, state);
  if (found.overflow || found.value.type == kind::null) return std::nullopt;
  if (of.type(i) == column_type::f64) return std::bit_cast<double>(found.value.word);
  if (found.value.big || of.type(i) == column_type::u64) return found.value.word;
  return static_cast<std::int64_t>(found.value.word);
}

/// The columns of all parts, one part behind the other.
[[nodiscard]] std::vector<result_values> collected(const projection& of,
                                                   const std::vector<std::vector<result_column>>& parts);

}  // namespace icecore::detail
