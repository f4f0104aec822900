#include "filter/kernels/numbers.hpp"

namespace icecore::detail {
namespace {

row_mask bit(std::size_t i, bool on) noexcept { return static_cast<row_mask>(on) << i; }

/// The exact result of two numbers; false if there is none.
bool exact_result(operation op, int128 a, int128 b, int128& result) noexcept {
  switch (op) {
    case operation::add:
      result = a + b;
      return true;
    case operation::subtract:
      result = a - b;
      return true;
    case operation::multiply:
      return !__builtin_mul_overflow(a, b, &result);
    case operation::divide:
    case operation::remainder:
      if (b == 0) return false;
      result = op == operation::divide ? a / b : a % b;
      return true;
    case operation::bit_and:
      result = a & b;
      return true;
    case operation::bit_or:
      result = a | b;
      return true;
    case operation::bit_xor:
      result = a ^ b;
      return true;
    case operation::shift_left:
      if (b < 0 || (b > 64 && a != 0)) return false;
      return a == 0 ? (result = 0, true) : !__builtin_mul_overflow(a, int128{1} << b, &result);
    case operation::shift_right:
      if (b < 0) return false;
      result = a >> (b > 127 ? 127 : b);
      return true;
    default:
      return false;
  }
}

/// Some rows one by one, with 128 bits.
void calculate_exactly(operation op, const slot& left, const slot& right, row_mask rows, slot& out) noexcept {
  for_each_row(rows, [&](std::size_t i) {
    int128 result = 0;
    bool big = false;
    const bool fits = exact_result(op, exact(left.word[i], (left.big >> i & 1U) != 0),
                                   exact(right.word[i], (right.big >> i & 1U) != 0), result) &&
                      split(result, out.word[i], big);
    const row_mask row = row_mask{1} << i;
    out.big = (out.big & ~row) | bit(i, big);
    if (!fits) out.valid &= ~row;
  });
}

/// All rows as signed numbers; gives those whose result is beyond 63 bits.
template <typename F>
row_mask signed_rows(const slot& left, const slot& right, slot& out, F overflows) noexcept {
  row_mask beyond = 0;
  for (std::size_t i = 0; i < rows_max; ++i) {
    std::int64_t result = 0;
    const bool over =
        overflows(static_cast<std::int64_t>(left.word[i]), static_cast<std::int64_t>(right.word[i]), &result);
    out.word[i] = static_cast<std::uint64_t>(result);
    beyond |= bit(i, over);
  }
  return beyond;
}

template <typename F>
void real_rows(const double* left, const double* right, slot& out, F result) noexcept {
  for (std::size_t i = 0; i < rows_max; ++i) out.real[i] = result(left[i], right[i]);
}

/// The doubles of a column; of one of whole numbers the nearest ones, in `room`.
const double* doubles_of(operand of, double* room) noexcept {
  if (of.type == kind::real) return of.of.real;
  if (of.of.big == 0) {
    for (std::size_t i = 0; i < rows_max; ++i) room[i] = static_cast<double>(static_cast<std::int64_t>(of.of.word[i]));
  } else {
    for (std::size_t i = 0; i < rows_max; ++i) room[i] = nearest_double(of.of.word[i], (of.of.big >> i & 1U) != 0);
  }
  return room;
}

row_mask zeros(const double* numbers) noexcept {
  row_mask mask = 0;
  for (std::size_t i = 0; i < rows_max; ++i) mask |= bit(i, numbers[i] == 0);
  return mask;
}

/// Doubles between -2^62 and 2^62 without what is behind the point; false if one of the rows has another.
bool small_whole_rows(const slot& of, row_mask rows, slot& out) noexcept {
  constexpr double limit = 4611686018427387904.0;
  bool all = true;
  for (std::size_t i = 0; i < rows_max; ++i) {
    const bool fits = of.real[i] > -limit && of.real[i] < limit;
    all &= fits || (rows >> i & 1U) == 0;
    out.word[i] = static_cast<std::uint64_t>(fits ? static_cast<std::int64_t>(of.real[i]) : 0);
  }
  return all;
}

row_mask negative_rows(const slot& of) noexcept {
  row_mask mask = 0;
  for (std::size_t i = 0; i < rows_max; ++i) mask |= bit(i, static_cast<std::int64_t>(of.word[i]) < 0);
  return mask;
}

/// One value as a whole number, before its range is looked at.
bool whole_of(const datum& one, std::uint64_t& word, bool& big) noexcept {
  switch (one.type) {
    case kind::integer:
      word = one.word;
      big = one.big;
      return true;
    case kind::boolean:
      word = one.word;
      big = false;
      return true;
    case kind::real:
      return whole_number(std::bit_cast<double>(one.word), word, big);
    case kind::bytes:
      return number_of_text(one.text, word, big);
    default:
      return false;
  }
}

bool real_of_datum(const datum& one, double& real) noexcept {
  switch (one.type) {
    case kind::integer:
      real = nearest_double(one.word, one.big);
      return true;
    case kind::boolean:
      real = static_cast<double>(one.word);
      return true;
    case kind::real:
      real = std::bit_cast<double>(one.word);
      return true;
    case kind::bytes:
      return number_of_text(one.text, real);
    default:
      return false;
  }
}

}  // namespace

void calculate_whole(operation op, const slot& left, const slot& right, row_mask active, slot& out) noexcept {
  out.valid = left.valid & right.valid;
  out.big = 0;
  const row_mask rows = out.valid & active;
  row_mask slow = (left.big | right.big) & rows;
  switch (op) {
    case operation::add:
      slow |= signed_rows(left, right, out,
                          [](auto a, auto b, auto* result) { return __builtin_add_overflow(a, b, result); });
      break;
    case operation::subtract:
      slow |= signed_rows(left, right, out,
                          [](auto a, auto b, auto* result) { return __builtin_sub_overflow(a, b, result); });
      break;
    case operation::multiply:
      slow |= signed_rows(left, right, out,
                          [](auto a, auto b, auto* result) { return __builtin_mul_overflow(a, b, result); });
      break;
    default: {
      row_mask by_zero = 0;
      for_each_row(rows & ~slow, [&](std::size_t i) {
        const auto a = static_cast<std::int64_t>(left.word[i]);
        const auto b = static_cast<std::int64_t>(right.word[i]);
        if (b == 0) {
          by_zero |= bit(i, true);
        } else if (b == -1) {  // the quotient of INT64_MIN is 2^63
          slow |= bit(i, true);
        } else {
          out.word[i] = static_cast<std::uint64_t>(op == operation::divide ? a / b : a % b);
        }
      });
      out.valid &= ~by_zero;
      break;
    }
  }
  calculate_exactly(op, left, right, slow & rows, out);
}

void calculate_real(operation op, operand left, operand right, slot& out) noexcept {
  double left_room[rows_max];
  double right_room[rows_max];
  const double* const a = doubles_of(left, left_room);
  const double* const b = doubles_of(right, right_room);
  out.valid = left.of.valid & right.of.valid;
  switch (op) {
    case operation::add:
      real_rows(a, b, out, [](double x, double y) { return x + y; });
      return;
    case operation::subtract:
      real_rows(a, b, out, [](double x, double y) { return x - y; });
      return;
    case operation::multiply:
      real_rows(a, b, out, [](double x, double y) { return x * y; });
      return;
    case operation::divide:
      real_rows(a, b, out, [](double x, double y) { return x / y; });
      break;
    default:
      real_rows(a, b, out, [](double x, double y) { return std::fmod(x, y); });
      break;
  }
  out.valid &= ~zeros(b);
}

void calculate_bits(operation op, const slot& left, const slot& right, row_mask active, slot& out) noexcept {
  out.valid = left.valid & right.valid;
  out.big = 0;
  const row_mask rows = out.valid & active;
  row_mask slow = (left.big | right.big) & rows;
  switch (op) {
    case operation::bit_and:
      for (std::size_t i = 0; i < rows_max; ++i) out.word[i] = left.word[i] & right.word[i];
      break;
    case operation::bit_or:
      for (std::size_t i = 0; i < rows_max; ++i) out.word[i] = left.word[i] | right.word[i];
      break;
    case operation::bit_xor:
      for (std::size_t i = 0; i < rows_max; ++i) out.word[i] = left.word[i] ^ right.word[i];
      break;
    case operation::shift_right:
      for (std::size_t i = 0; i < rows_max; ++i) {
        const std::uint64_t by = right.word[i];
        slow |= bit(i, by > 63) & rows;
        out.word[i] = static_cast<std::uint64_t>(static_cast<std::int64_t>(left.word[i]) >> (by & 63U));
      }
      break;
    default:
      slow = rows;
      break;
  }
  calculate_exactly(op, left, right, slow, out);
}

void negate_whole(operation op, const slot& of, row_mask active, slot& out) noexcept {
  // -x = 0 - x, ~x = -1 - x
  slot from;
  from.fill({.type = kind::integer, .word = op == operation::minus ? 0 : ~0ULL});
  calculate_whole(operation::subtract, from, of, active, out);
}

void negate_real(const slot& of, slot& out) noexcept {
  for (std::size_t i = 0; i < rows_max; ++i) out.real[i] = -of.real[i];
  out.valid = of.valid;
}

void to_whole(bool is_unsigned, operand of, row_mask active, slot& out) noexcept {
  out.valid = of.of.valid;
  out.big = 0;
  if (of.type == kind::real && small_whole_rows(of.of, of.of.valid & active, out)) {
    if (is_unsigned) out.valid &= ~negative_rows(out);
    return;
  }
  for_each_row(of.of.valid & active, [&](std::size_t i) {
    bool big = false;
    const bool fits = whole_of(of.of.at(of.type, i), out.word[i], big) &&
                      (is_unsigned ? big || static_cast<std::int64_t>(out.word[i]) >= 0 : !big);
    out.big |= bit(i, big && fits);
    if (!fits) out.valid &= ~bit(i, true);
  });
}

void to_real(operand of, row_mask active, slot& out) noexcept {
  out.valid = of.of.valid;
  if (of.type == kind::integer) {
    doubles_of(of, out.real);
    return;
  }
  for_each_row(of.of.valid & active, [&](std::size_t i) {
    if (!real_of_datum(of.of.at(of.type, i), out.real[i])) out.valid &= ~bit(i, true);
  });
}

void take_from_any(operation op, const slot& of, row_mask active, slot& out) noexcept {
  out.valid = 0;
  out.truth = 0;
  out.big = 0;
  out.views = out.own_views;
  for_each_row(of.valid & active, [&](std::size_t i) {
    const datum one = of.at(kind::any, i);
    bool fits = false;
    switch (op) {
      case operation::real_of:
        fits = (one.type == kind::integer || one.type == kind::real) && real_of_datum(one, out.real[i]);
        break;
      case operation::integer_of:
        fits = one.type == kind::integer;
        out.word[i] = one.word;
        out.big |= bit(i, fits && one.big);
        break;
      case operation::bytes_of:
        fits = one.type == kind::bytes;
        out.own_views[i] = one.text;
        break;
      default:
        fits = one.type == kind::boolean;
        out.truth |= bit(i, fits && one.word != 0);
        break;
    }
    out.valid |= bit(i, fits);
  });
}

}  // namespace icecore::detail
