// Arithmetic, bit operations and conversions of numbers by blocks of 64 rows. Whole numbers are exact: what is below
// -2^63 or above 2^64 - 1 becomes null. Doubles follow IEEE 754 and are never contracted.
//
// Threads: pure. Cost: below 1 ns a row, but for division and for results of 2^63 and more.
#pragma once

#include "filter/kernels/compare.hpp"

namespace icecore::detail {

/// `+ - * / %` of whole numbers.
void calculate_whole(operation op, const slot& left, const slot& right, row_mask active, slot& out) noexcept;

/// `+ - * / %` of doubles; whole numbers among the operands are rounded to the nearest double first.
void calculate_real(operation op, operand left, operand right, slot& out) noexcept;

/// `& | ^ << >>`: whole numbers as two's complement of unlimited width.
void calculate_bits(operation op, const slot& left, const slot& right, row_mask active, slot& out) noexcept;

/// `-x` and `~x`.
void negate_whole(operation op, const slot& of, row_mask active, slot& out) noexcept;
void negate_real(const slot& of, slot& out) noexcept;

/// The conversions i64(), u64() and f64(), from any type. Null where the result does not fit.
void to_whole(bool is_unsigned, operand of, row_mask active, slot& out) noexcept;
void to_real(operand of, row_mask active, slot& out) noexcept;

/// What json() found, where it has the type that is needed: no conversion of text.
void take_from_any(operation op, const slot& of, row_mask active, slot& out) noexcept;

}  // namespace icecore::detail
