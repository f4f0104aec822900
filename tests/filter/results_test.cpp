// Columns of values and folds over matching rows.
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>
#include <string>

#include "filter/results/aggregation.hpp"
#include "filter/results/projection.hpp"
#include "icecore/error.hpp"
#include "table.hpp"

namespace icecore::testing {
namespace {

using namespace detail;

std::string shown(const datum& one) {
  switch (one.type) {
    case kind::boolean:
      return one.word != 0 ? "true" : "false";
    case kind::integer:
      return one.big ? std::to_string(one.word) : std::to_string(static_cast<std::int64_t>(one.word));
    case kind::real:
      return fmt::format("{}", std::bit_cast<double>(one.word));
    case kind::bytes:
      return std::string(one.text);
    default:
      return "null";
  }
}

table trades() {
  table rows;
  for (std::uint32_t i = 0; i < 200; ++i) rows.add("k" + std::to_string(i), packed(0.5 + i, i, std::uint64_t{i} << 58));
  rows.add("short", packed(7.0));
  return rows;
}
const layout& columns() {
  static const layout one("price f64, qty u32, big u64, rest bytes");
  return one;
}

TEST(projections, give_typed_columns_of_the_rows_that_match) {
  const projection select({"key", "price * qty as total", "qty", "big + 1", "price > 100", "if(qty = 3, null, -qty)"},
                          columns());
  const auto types = [&] {
    std::vector<column_type> found;
    for (std::size_t i = 0; i < select.size(); ++i) found.push_back(select.type(i));
    return found;
  }();
  using enum column_type;
  EXPECT_EQ(types, (std::vector{bytes, f64, i64, u64, boolean, i64}));
  EXPECT_EQ(select.name(1), "total");
  EXPECT_EQ(select.name(3), "big + 1");

  const table rows = trades();
  const filter odd("qty % 2 = 1 or key = 'short'", columns());
  for (const std::size_t block_size : {std::size_t{64}, std::size_t{7}, std::size_t{1}}) {
    auto out = select.columns();
    scratch memory;
    rows.in_blocks(block_size, [&](const detail::rows& block, std::size_t) {
      select.evaluate(block, odd.program().test(block, memory), memory, out);
    });
    ASSERT_EQ(out[0].size(), 101U);
    for (std::uint32_t i = 0; i < 100; ++i) {
      const std::uint32_t n = 2 * i + 1;
      const std::uint64_t big = std::uint64_t{n} << 58;
      EXPECT_EQ(shown(out[0].at(i)), "k" + std::to_string(n));
      EXPECT_EQ(shown(out[1].at(i)), fmt::format("{}", (0.5 + n) * n));
      EXPECT_EQ(shown(out[2].at(i)), std::to_string(n));
      EXPECT_EQ(shown(out[3].at(i)), std::to_string(big + 1));
      EXPECT_EQ(shown(out[4].at(i)), n >= 100 ? "true" : "false");
      EXPECT_EQ(shown(out[5].at(i)), n == 3 ? "null" : std::to_string(-static_cast<int>(n)));
    }
    EXPECT_EQ(shown(out[0].at(100)), "short");
    for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(shown(out[i].at(100)), "null");
    EXPECT_EQ(out[0].nulls(), 0U);
    EXPECT_EQ(out[2].nulls(), 1U);
    EXPECT_EQ(out[5].nulls(), 2U);
    EXPECT_EQ(out[2].validity().size(), 2U);
    EXPECT_EQ(out[0].offsets().size(), 102U);
    out[0].clear();
    EXPECT_EQ(out[0].size(), 0U);
  }
}

TEST(projections, leave_out_numbers_that_their_column_cannot_hold) {
  const projection select({"big - 1", "big * 0 + 18446744073709551615", "big + -1"}, columns());
  EXPECT_EQ(select.type(0), column_type::i64);
  EXPECT_EQ(select.type(1), column_type::u64);
  table rows;
  rows.add("a", packed(0.0, 0U, std::numeric_limits<std::uint64_t>::max()));
  rows.add("b", packed(0.0, 0U, std::uint64_t{0}));
  auto out = select.columns();
  scratch memory;
  rows.in_blocks(64,
                 [&](const detail::rows& block, std::size_t) { select.evaluate(block, block.mask(), memory, out); });
  EXPECT_EQ(shown(out[0].at(0)), "null");
  EXPECT_EQ(shown(out[0].at(1)), "-1");
  EXPECT_EQ(shown(out[1].at(0)), "18446744073709551615");
  EXPECT_EQ(shown(out[2].at(1)), "-1");
}

TEST(projections, are_stored) {
  const projection select({"key", "price * qty as total", "null"}, columns());
  const projection again = projection::from_stored(select.stored());
  EXPECT_EQ(again.stored(), select.stored());
  EXPECT_EQ(again.name(1), "total");
  EXPECT_EQ(again.type(1), column_type::f64);
  EXPECT_EQ(again.type(2), column_type::bytes);
  for (std::size_t i = 0; i < select.stored().size(); ++i) {
    auto damaged = select.stored();
    damaged[i] ^= std::byte{0x10};
    EXPECT_THROW(static_cast<void>(projection::from_stored(damaged)), error) << i;
  }
  EXPECT_THROW(static_cast<void>(projection::from_stored(filter("true").stored())), error);
}

TEST(projections, tell_which_expression_is_wrong) {
  try {
    const projection select({"key", "prize + 1"}, columns());
    ADD_FAILURE();
  } catch (const error& told) {
    EXPECT_EQ(told.code(), errc::bad_input);
    EXPECT_EQ(told.message(),
              "selected 'prize + 1': expression, byte 0: unknown column 'prize'; did you mean 'price'?");
  }
}

std::vector<fold_state> folded(const aggregation& of, const table& rows, std::size_t from, std::size_t to,
                               std::size_t block_size) {
  table part;
  for (std::size_t i = from; i < to; ++i) part.add(rows.keys[i], rows.values[i]);
  auto states = of.begin();
  scratch memory;
  part.in_blocks(block_size,
                 [&](const detail::rows& block, std::size_t) { of.add(block, block.mask(), memory, states); });
  return states;
}

TEST(folds, are_exact) {
  const aggregation of({{fold::count, "true"},
                        {fold::count, "qty"},
                        {fold::sum, "qty"},
                        {fold::sum, "price"},
                        {fold::min, "price"},
                        {fold::max, "qty"},
                        {fold::min, "big"},
                        {fold::max, "big"},
                        {fold::sum, "big"},
                        {fold::sum, "-big"},
                        {fold::min, "if(qty = 7, -5, big)"}},
                       columns());
  const table rows = trades();
  const auto states = folded(of, rows, 0, rows.keys.size(), 64);
  const auto result = [&](std::size_t i) { return shown(of.result(i, states[i]).value); };
  EXPECT_EQ(result(0), "201");
  EXPECT_EQ(result(1), "200");
  EXPECT_EQ(result(2), "19900");
  EXPECT_EQ(result(3), "20007");
  EXPECT_EQ(result(4), "0.5");
  EXPECT_EQ(result(5), "199");
  EXPECT_EQ(result(6), "0");
  EXPECT_EQ(result(7), std::to_string(std::uint64_t{63} << 58));
  EXPECT_TRUE(of.result(8, states[8]).overflow) << "the sum is beyond 2^64";
  EXPECT_EQ(result(8), "null");
  EXPECT_EQ(result(10), "-5");
  const auto nothing = of.begin();
  EXPECT_EQ(shown(of.result(0, nothing[0]).value), "0");
  EXPECT_EQ(shown(of.result(2, nothing[2]).value), "null");
}

TEST(folds, of_doubles_are_added_in_row_order_to_the_last_bit) {
  std::mt19937_64 random(7);
  table rows;
  double expected = 0;
  double first_half = 0;
  for (int i = 0; i < 1000; ++i) {
    const double next = std::ldexp(static_cast<double>(random()) - 9e18, static_cast<int>(random() % 200) - 100);
    rows.add("k", packed(next));
    expected = i == 0 ? next : expected + next;
    if (i == 499) first_half = expected;
  }
  const aggregation of({{fold::sum, "price"}}, columns());
  for (const std::size_t block_size : {std::size_t{64}, std::size_t{1}, std::size_t{13}}) {
    const auto states = folded(of, rows, 0, 1000, block_size);
    EXPECT_EQ(std::bit_cast<double>(of.result(0, states[0]).value.word), expected) << block_size;
  }
  auto states = folded(of, rows, 0, 500, 64);
  EXPECT_EQ(std::bit_cast<double>(states[0].low), first_half);
  const auto later = folded(of, rows, 500, 1000, 64);
  const double second_half = std::bit_cast<double>(later[0].low);
  of.merge(states, later);
  EXPECT_EQ(std::bit_cast<double>(states[0].low), first_half + second_half);
  EXPECT_EQ(states[0].values, 1000U);
}

TEST(folds, of_parts_are_those_of_the_whole) {
  const aggregation of(
      {{fold::count, "qty"}, {fold::sum, "qty"}, {fold::min, "price"}, {fold::max, "big"}, {fold::sum, "-big"}},
      columns());
  const table rows = trades();
  const auto whole = folded(of, rows, 0, rows.keys.size(), 64);
  for (std::size_t cut = 0; cut <= rows.keys.size(); cut += 67) {
    auto states = folded(of, rows, 0, cut, 64);
    of.merge(states, folded(of, rows, cut, rows.keys.size(), 64));
    EXPECT_EQ(states, whole) << cut;
  }
}

TEST(folds, leave_out_nan_of_extremes_and_keep_the_sign_of_zero) {
  table rows;
  rows.add("a", packed(std::numeric_limits<double>::quiet_NaN()));
  rows.add("b", packed(-0.0));
  const aggregation of({{fold::min, "price"}, {fold::max, "price"}, {fold::sum, "price"}}, columns());
  const auto states = folded(of, rows, 0, 2, 64);
  EXPECT_EQ(shown(of.result(0, states[0]).value), "-0");
  EXPECT_EQ(states[1].values, 1U);
  EXPECT_EQ(shown(of.result(2, states[2]).value), "nan");
  EXPECT_EQ(shown(of.result(2, folded(of, rows, 1, 2, 64)[2]).value), "-0");
}

TEST(folds, are_stored_and_are_of_numbers) {
  const aggregation of({{fold::count, "true"}, {fold::max, "price * 2"}}, columns());
  const aggregation again = aggregation::from_stored(of.stored());
  EXPECT_EQ(again.stored(), of.stored());
  EXPECT_EQ(again.how(1), fold::max);
  EXPECT_EQ(again.type(0), column_type::u64);
  EXPECT_EQ(again.type(1), column_type::f64);
  EXPECT_THROW(static_cast<void>(aggregation::from_stored(projection({"key"}, columns()).stored())), error);
  try {
    const aggregation wrong({{fold::sum, "key"}}, columns());
    ADD_FAILURE();
  } catch (const error& told) {
    EXPECT_EQ(told.message(), "expression, byte 0: 'sum' is of a number, and this is bytes");
  }
}

}  // namespace
}  // namespace icecore::testing
