#include "filter/kernels/compare.hpp"

#include <bit>
#include <functional>

namespace icecore::detail {
namespace {

/// One bit for each row of a block for which `test(i)` is true.
template <typename Test>
[[gnu::always_inline]] inline row_mask rows_where(Test test) noexcept {
  row_mask mask = 0;
  for (std::size_t byte = 0; byte < rows_max; byte += 8) {
    row_mask part = 0;
    for (std::size_t i = 0; i < 8; ++i) part |= static_cast<row_mask>(test(byte + i)) << i;
    mask |= part << byte;
  }
  return mask;
}

/// Calls f with the function object that compares so: a loop is compiled for each relation.
template <typename F>
[[gnu::always_inline]] inline row_mask with_relation(relation one, F f) noexcept {
  switch (one) {
    case relation::equal:
      return f(std::equal_to<>());
    case relation::unequal:
      return f(std::not_equal_to<>());
    case relation::less:
      return f(std::less<>());
    case relation::less_equal:
      return f(std::less_equal<>());
    case relation::greater:
      return f(std::greater<>());
    case relation::greater_equal:
      return f(std::greater_equal<>());
  }
  return 0;
}

/// Where exactly one of two numbers is 2^63 or more, that one is the greater.
row_mask with_big(relation one, row_mask truth, row_mask left, row_mask right) noexcept {
  const row_mask differ = left ^ right;
  if (differ == 0) return truth;
  const bool if_greater = holds(one, order::greater);
  const bool if_less = holds(one, order::less);
  return (truth & ~differ) | (if_greater ? differ & left : 0) | (if_less ? differ & right : 0);
}

row_mask compare_whole(relation one, const slot& left, const slot& right) noexcept {
  const row_mask truth = with_relation(one, [&](auto holds_for) {
    return rows_where([&](std::size_t i) {
      return holds_for(static_cast<std::int64_t>(left.word[i]), static_cast<std::int64_t>(right.word[i]));
    });
  });
  return with_big(one, truth, left.big, right.big);
}

row_mask compare_real(relation one, const slot& left, const slot& right) noexcept {
  return with_relation(one, [&](auto holds_for) {
    return rows_where([&](std::size_t i) { return holds_for(left.real[i], right.real[i]); });
  });
}

/// Whether each of these whole numbers is a double, too: between -2^53 and 2^53.
bool all_are_doubles(const slot& whole, row_mask rows) noexcept {
  constexpr std::uint64_t limit = std::uint64_t{1} << 53;
  bool all = (whole.big & rows) == 0;
  for (std::size_t i = 0; i < rows_max; ++i) {
    all &= whole.word[i] + limit <= 2 * limit || (rows >> i & 1U) == 0;
  }
  return all;
}

row_mask compare_mixed(relation one, const slot& whole, const slot& real, bool turned, row_mask rows) noexcept {
  if (all_are_doubles(whole, rows)) {
    return with_relation(one, [&](auto holds_for) {
      return rows_where([&](std::size_t i) {
        const auto number = static_cast<double>(static_cast<std::int64_t>(whole.word[i]));
        return turned ? holds_for(real.real[i], number) : holds_for(number, real.real[i]);
      });
    });
  }
  row_mask truth = 0;
  for_each_row(rows, [&](std::size_t i) {
    const order at = order_of(whole.word[i], (whole.big >> i & 1U) != 0, real.real[i]);
    truth |= static_cast<row_mask>(holds(one, turned ? reversed(at) : at)) << i;
  });
  return truth;
}

row_mask compare_bytes(relation one, const slot& left, const slot& right, row_mask rows) noexcept {
  return with_relation(one, [&](auto holds_for) {
    row_mask truth = 0;
    for_each_row(rows,
                 [&](std::size_t i) { truth |= static_cast<row_mask>(holds_for(left.views[i], right.views[i])) << i; });
    return truth;
  });
}

row_mask compare_booleans(relation one, row_mask left, row_mask right) noexcept {
  row_mask truth = 0;
  if (holds(one, order::equal)) truth |= ~(left ^ right);
  if (holds(one, order::less)) truth |= ~left & right;
  if (holds(one, order::greater)) truth |= left & ~right;
  return truth;
}

/// Each row has a kind of its own; of kinds that cannot be compared the result is null.
void compare_any(relation one, operand left, operand right, row_mask rows, slot& out) noexcept {
  out.truth = 0;
  for_each_row(rows, [&](std::size_t i) {
    const order at = order_of(left.of.at(left.type, i), right.of.at(right.type, i));
    if (at == order::unlike) {
      out.valid &= ~(row_mask{1} << i);
    } else {
      out.truth |= static_cast<row_mask>(holds(one, at)) << i;
    }
  });
}

}  // namespace

void compare(relation one, operand left, operand right, row_mask active, slot& out) noexcept {
  const row_mask valid = left.of.valid & right.of.valid;
  const row_mask rows = valid & active;
  out.valid = valid;
  if (left.type == kind::any || right.type == kind::any) {
    compare_any(one, left, right, rows, out);
  } else if (left.type == kind::null || right.type == kind::null) {
    out.truth = 0;
    out.valid = 0;
  } else if (left.type == kind::bytes) {
    out.truth = compare_bytes(one, left.of, right.of, rows);
  } else if (left.type == kind::boolean) {
    out.truth = compare_booleans(one, left.of.truth, right.of.truth);
  } else if (left.type != right.type) {
    const bool turned = left.type == kind::real;
    out.truth =
        turned ? compare_mixed(one, right.of, left.of, true, rows) : compare_mixed(one, left.of, right.of, false, rows);
  } else {
    out.truth =
        left.type == kind::integer ? compare_whole(one, left.of, right.of) : compare_real(one, left.of, right.of);
  }
}

row_mask compare_signed(relation one, const std::uint64_t* left, std::int64_t right) noexcept {
  return with_relation(one, [&](auto holds_for) {
    return rows_where([&](std::size_t i) { return holds_for(static_cast<std::int64_t>(left[i]), right); });
  });
}

row_mask compare_unsigned(relation one, const std::uint64_t* left, std::uint64_t right) noexcept {
  return with_relation(
      one, [&](auto holds_for) { return rows_where([&](std::size_t i) { return holds_for(left[i], right); }); });
}

row_mask compare_real(relation one, const std::uint64_t* left, double right) noexcept {
  return with_relation(one, [&](auto holds_for) {
    return rows_where([&](std::size_t i) { return holds_for(std::bit_cast<double>(left[i]), right); });
  });
}

}  // namespace icecore::detail
