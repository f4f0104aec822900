// Comparing two columns of results, or one with a constant, by blocks of 64 rows.
//
// Threads: pure. Cost: below 1 ns a row for numbers.
#pragma once

#include "filter/kernels/values.hpp"
#include "filter/run/slot.hpp"

namespace icecore::detail {

/// A column of results and the type of its rows.
struct operand {
  const slot& of;
  kind type;
};

/// Where the relation holds: into `out.truth` and `out.valid`. Rows outside of `active` are not looked at, or mean
/// nothing.
void compare(relation one, operand left, operand right, row_mask active, slot& out) noexcept;

/// 64 whole numbers of 64 bits, all signed or all unsigned, or doubles by their bits, each with one number.
[[nodiscard]] row_mask compare_signed(relation one, const std::uint64_t* left, std::int64_t right) noexcept;
[[nodiscard]] row_mask compare_unsigned(relation one, const std::uint64_t* left, std::uint64_t right) noexcept;
[[nodiscard]] row_mask compare_real(relation one, const std::uint64_t* left, double right) noexcept;

}  // namespace icecore::detail
