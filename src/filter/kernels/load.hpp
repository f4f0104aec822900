// Columns of a block's values into slots.
//
// Threads: pure. Cost: below 1 ns a row for a number.
#pragma once

#include "filter/run/slot.hpp"

namespace icecore::detail {

/// The column `place` of `values`; null where a value is too short for it, and outside of `present`.
void load(const field& place, const std::string_view* values, std::size_t size, row_mask present, slot& out) noexcept;

/// The same of a column of kept rows; null in a block that has none.
void load_kept(const field& place, const rows& block, slot& out) noexcept;

}  // namespace icecore::detail
