// The number that a fold came to, as the public interface shows it.
#pragma once

#include <bit>
#include <optional>

#include "filter/results/aggregation.hpp"
#include "icecore/filtered.hpp"

namespace icecore::detail {

/// Empty if nothing was folded, or if a sum of whole numbers is out of range. `total` has one fold.
[[nodiscard]] inline std::optional<result_number> number_of(const aggregation& total, const fold_state& state) {
  const auto found = total.result(0, state);
  if (found.overflow || found.value.type == kind::null) return std::nullopt;
  if (total.type(0) == column_type::f64) return std::bit_cast<double>(found.value.word);
  if (found.value.big || total.type(0) == column_type::u64) return found.value.word;
  return static_cast<std::int64_t>(found.value.word);
}

}  // namespace icecore::detail
