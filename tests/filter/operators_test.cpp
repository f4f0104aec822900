// Every operator, one value at a time: over nulls, the ends of ranges, NaN.
#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "icecore/snapshot.hpp"
#include "table.hpp"

namespace icecore::testing {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint64_t u64_max = std::numeric_limits<std::uint64_t>::max();
constexpr std::int64_t i64_min = std::numeric_limits<std::int64_t>::min();

/// true, false or (empty) null.
std::optional<bool> truth(std::string_view text, const layout& columns, std::string_view key, std::string_view value) {
  const std::string expression(text);
  const bool yes = filter(expression, columns).matches(key, value);
  const bool no = filter("not (" + expression + ")", columns).matches(key, value);
  const bool null = filter("is_null(" + expression + ")", columns).matches(key, value);
  EXPECT_EQ(yes + no + null, 1) << text;
  if (null) return std::nullopt;
  return yes;
}

std::optional<bool> constant(std::string_view text) { return truth(text, {}, "key", "value"); }

void holds(std::string_view text) { EXPECT_EQ(constant(text), true) << text; }
void fails(std::string_view text) { EXPECT_EQ(constant(text), false) << text; }
void is_null(std::string_view text) { EXPECT_EQ(constant(text), std::nullopt) << text; }

TEST(operators, literals) {
  holds("true");
  fails("false");
  is_null("null");
  holds("0x10 = 16");
  holds("0xffffffffffffffff = 18446744073709551615");
  holds("-9223372036854775808 < -9223372036854775807");
  holds("1.5e3 = 1500");
  holds("'it''s' = x'69742773'");
  holds("'' = x''");
  holds(".5 = 0.5");
}

TEST(operators, logic_has_three_values) {
  holds("true and true");
  fails("true and false");
  fails("null and false");
  fails("false and null");
  is_null("null and true");
  is_null("true and null");
  is_null("null and null");
  holds("null or true");
  holds("true or null");
  is_null("null or false");
  is_null("false or null");
  fails("false or false");
  is_null("not null");
  holds("not false");
  holds("not not true");
  holds("true or true and false");
  holds("not false and true");
}

TEST(operators, comparisons_are_exact) {
  holds("9007199254740993 > 9007199254740992.0");  // 2^53 + 1 beside 2^53
  fails("9007199254740993 = 9007199254740992.0");
  holds("9223372036854775807 < 9223372036854775808.0");
  holds("9223372036854775808 = 9223372036854775808.0");
  holds("18446744073709551615 < 18446744073709551616.0");
  holds("-9223372036854775808 = -9223372036854775808.0");
  holds("18446744073709551615 > -1");
  holds("9223372036854775808 > 9223372036854775807");
  holds("-0.0 = 0");
  holds("0.0 = -0.0");
  holds("2 < 2.5");
  holds("-2 > -2.5");
  holds("3 >= 3.0");
  is_null("1 = null");
  is_null("null = null");
  is_null("null < 1");
  holds("'b' > 'a'");
  holds("x'ff' > 'a'");
  holds("x'80' > x'7f'");
  holds("'a' < 'ab'");
  holds("x'00' < x'0000'");
  holds("true > false");
  holds("true = true");
  holds("true != false");
  holds("1 == 1");
  holds("1 <> 2");
}

TEST(operators, not_a_number_is_as_in_ieee_754) {
  const layout columns("x f64, y f64");
  const std::string value = packed(not_a_number, infinite);
  for (const char* const text : {"x = x", "x < 1", "x > 1", "x <= 1", "x >= 1", "x = 1", "x < y",
                                 "x > 9007199254740993", "x between 0 and 1", "x in (1, 2)"}) {
    EXPECT_EQ(truth(text, columns, "", value), false) << text;
  }
  for (const char* const text : {"x != x", "x != 1", "x != y", "not (x = 1)", "y > 18446744073709551615",
                                 "y > x or y = y", "-y < -9223372036854775808", "x != 9007199254740993"}) {
    EXPECT_EQ(truth(text, columns, "", value), true) << text;
  }
  EXPECT_EQ(truth("i64(x) = 1", columns, "", value), std::nullopt);
  EXPECT_EQ(truth("i64(y) = 1", columns, "", value), std::nullopt);
}

TEST(operators, whole_numbers_are_exact_or_null) {
  holds("9223372036854775807 + 1 = 9223372036854775808");
  holds("18446744073709551615 + 0 = 18446744073709551615");
  is_null("18446744073709551615 + 1 = 0");
  is_null("-9223372036854775808 - 1 = 0");
  holds("3 - 5 = -2");
  holds("9223372036854775808 - 9223372036854775809 = -1");
  holds("18446744073709551615 - 18446744073709551615 = 0");
  holds("4294967295 * 4294967295 = 18446744065119617025");
  is_null("4294967296 * 4294967296 = 0");
  is_null("18446744073709551615 * 18446744073709551615 = 0");
  holds("18446744073709551615 * 0 = 0");
  holds("-9223372036854775808 / -1 = 9223372036854775808");
  holds("-9223372036854775808 % -1 = 0");
  holds("-7 / 2 = -3");
  holds("-7 % 2 = -1");
  holds("7 % -2 = 1");
  holds("18446744073709551615 / 10 = 1844674407370955161");
  is_null("1 / 0 = 0");
  is_null("1 % 0 = 0");
  holds("-(-9223372036854775808) = 9223372036854775808");
  is_null("-18446744073709551615 = 0");
  is_null("1 + null = 1");
  holds("2 + 3 * 4 = 14");
  holds("(2 + 3) * 4 = 20");
  holds("10 - 3 - 2 = 5");
}

TEST(operators, doubles_are_those_of_ieee_754) {
  holds("0.1 + 0.2 != 0.3");
  holds("1e308 * 10 > 1e308");
  holds("7.5 % 2 = 1.5");
  holds("-7.5 % 2 = -1.5");
  is_null("1.0 / 0 = 1");
  is_null("1.0 / -0.0 = 1");
  is_null("1.0 % 0 = 1");
  holds("1 / 2.0 = 0.5");
  holds("9007199254740993 + 0.0 = 9007199254740992");  // a whole number beside a double is rounded
  holds("-(1.5) = -1.5");
}

TEST(operators, bits_are_twos_complement_of_any_width) {
  holds("12 & 10 = 8");
  holds("12 | 10 = 14");
  holds("12 ^ 10 = 6");
  holds("~0 = -1");
  holds("-1 & 18446744073709551615 = 18446744073709551615");
  holds("-1 | 18446744073709551615 = -1");
  is_null("-1 ^ 18446744073709551615 = 0");
  holds("1 << 63 = 9223372036854775808");
  is_null("1 << 64 = 0");
  is_null("1 << -1 = 0");
  holds("0 << 1000 = 0");
  holds("-1 << 63 = -9223372036854775808");
  holds("-5 >> 1 = -3");
  holds("18446744073709551615 >> 63 = 1");
  holds("-1 >> 1000 = -1");
  holds("5 >> 64 = 0");
  is_null("1 >> -1 = 0");
  holds("1 | 2 ^ 3 & 4 << 1 = 3");  // << before & before ^ before |
  is_null("~18446744073709551615 = 0");
}

TEST(operators, between_and_in_are_their_comparisons) {
  holds("2 between 1 and 3");
  holds("2 between 2 and 2");
  fails("2 between 3 and 1");
  holds("2 not between 3 and 4");
  is_null("5 between 1 and null or false");
  is_null("2 between 1 and null");
  fails("0 between 1 and null");
  fails("4 between null and 3");
  is_null("null between 1 and 2");
  holds("2 in (1, 2, null)");
  is_null("3 in (1, 2, null)");
  fails("3 in (1, 2)");
  holds("3 not in (1, 2)");
  is_null("3 not in (1, null)");
  is_null("null in (1, 2)");
  holds("2 in (1.0, 2.0)");
  holds("key in ('a', 'key')");
  fails("key in ('a', 'b')");
  is_null("key in ('a', null)");
  holds("18446744073709551615 in (1, 18446744073709551615)");
  holds("length(key) in (1, length(key))");
}

TEST(operators, like_matches_bytes) {
  holds("'abc' like 'abc'");
  fails("'abc' like 'ABC'");
  holds("'abc' like 'a%'");
  holds("'abc' like '%c'");
  holds("'abc' like '%b%'");
  holds("'abc' like '_b_'");
  fails("'abc' like '_'");
  holds("'' like '%'");
  holds("'' like ''");
  fails("'' like '_'");
  holds("'abcabd' like 'a%b_'");
  fails("'abcab' like 'a%b_'");
  holds("'aXbXc' like 'a%b%c'");
  holds("x'ff00' like '_%'");
  holds("'50%' like '50\\%' escape '\\'");
  fails("'500' like '50\\%' escape '\\'");
  holds("'a_b' like 'a!_b' escape '!'");
  holds("'abc' not like 'b%'");
  is_null("null like 'a'");
}

TEST(operators, parts_of_bytes) {
  holds("length('') = 0");
  holds("length(x'00ff') = 2");
  holds("substr('abcdef', 2, 3) = 'bcd'");
  holds("substr('abcdef', 2) = 'bcdef'");
  holds("substr('abcdef', -2) = 'ef'");
  holds("substr('abc', 0, 2) = 'a'");
  holds("substr('abc', -5, 3) = 'a'");
  holds("substr('abc', 9) = ''");
  holds("substr('abc', 18446744073709551615) = ''");
  holds("substr('abc', -9223372036854775808, 18446744073709551615) = 'abc'");
  holds("substr('abc', 1, 0) = ''");
  is_null("substr('abc', 1, -1) = ''");
  is_null("substr('abc', null) = ''");
  holds("starts_with('abc', 'ab')");
  holds("starts_with('abc', '')");
  fails("starts_with('ab', 'abc')");
  holds("ends_with('abc', 'bc')");
  fails("ends_with('abc', 'b')");
  holds("contains('abc', 'b')");
  holds("contains('abc', '')");
  fails("contains('abc', 'd')");
  is_null("contains('abc', null)");
  is_null("starts_with(null, 'a')");
  holds("starts_with(key, 'k') and ends_with(value, 'e')");
}

TEST(operators, conditions_choose_a_value) {
  holds("if(true, 1, 2) = 1");
  holds("if(false, 1, 2) = 2");
  holds("if(null, 1, 2) = 2");
  holds("if(key = 'key', key, value) = 'key'");
  holds("if(true, 1, 2.5) = 1");
  is_null("if(true, null, 1) = 1");
  holds("coalesce(null, 2, 3) = 2");
  is_null("coalesce(null, null) = 1");
  holds("coalesce(null, 1.5, 2) = 1.5");
  holds("is_null(null)");
  fails("is_null(1)");
  holds("null is null");
  holds("1 is not null");
  holds("is_null(1 / 0)");
}

TEST(operators, conversions_are_exact_or_null) {
  holds("i64(2.9) = 2");
  holds("i64(-2.9) = -2");
  is_null("i64(9223372036854775808) = 0");
  holds("i64(-9223372036854775808.0) = -9223372036854775808");
  is_null("i64(9223372036854775808.0) = 0");
  holds("u64(9223372036854775808.0) = 9223372036854775808");
  is_null("u64(-1) = 0");
  holds("u64(-0.5) = 0");
  is_null("u64(18446744073709551616.0) = 0");
  holds("i64('-12') = -12");
  holds("u64('18446744073709551615') = 18446744073709551615");
  is_null("u64('18446744073709551616') = 0");
  is_null("i64('12x') = 12");
  is_null("i64('') = 0");
  is_null("i64(' 1') = 1");
  holds("f64('1.5e1') = 15");
  is_null("f64('1.5e1 ') = 15");
  holds("i64(true) = 1");
  holds("f64(3) = 3.0");
}

TEST(columns, are_read_from_the_value) {
  const layout columns("a u8, b i8, c u16, d i16, e u32, f i32, g u64, h i64, i f32, j f64, k bytes(2), l bytes");
  const std::string value = packed(std::uint8_t{200}, std::int8_t{-100}, std::uint16_t{60000}, std::int16_t{-30000},
                                   std::uint32_t{4000000000}, std::int32_t{-2000000000}, u64_max, i64_min, 1.5F, -2.5,
                                   std::string("xy"), std::string("the rest"));
  const auto of = [&](std::string_view text) { return truth(text, columns, "", value); };
  for (const char* const text : {"a = 200",
                                 "b = -100",
                                 "c = 60000",
                                 "d = -30000",
                                 "e = 4000000000",
                                 "f = -2000000000",
                                 "g = 18446744073709551615",
                                 "h = -9223372036854775808",
                                 "i = 1.5",
                                 "j = -2.5",
                                 "k = 'xy'",
                                 "l = 'the rest'",
                                 "g > h",
                                 "h < g",
                                 "a + b = 100",
                                 "g > 9223372036854775807",
                                 "g != -1",
                                 "h != 18446744073709551615",
                                 "h < 9223372036854775808",
                                 "i > j",
                                 "g > j",
                                 "e > i",
                                 "200 = a",
                                 "199 < a",
                                 "a >= 199.5",
                                 "a < 200.5",
                                 "h > -9.3e18",
                                 "g < 1.9e19",
                                 "g > 1.8e19"}) {
    EXPECT_EQ(of(text), true) << text;
  }
  EXPECT_EQ(of("h = 0 - 1"), false);
  EXPECT_EQ(of("g <= 1.844674407370955e19"), false);
}

TEST(columns, big_endian_on_request) {
  const layout columns("a u16 be, b i32 be, c f64 be, d u64 le");
  const std::string value =
      packed(std::uint8_t{1}, std::uint8_t{2}, std::uint8_t{0xff}, std::uint8_t{0xff}, std::uint8_t{0xff},
             std::uint8_t{0xfe}, std::string("\x3f\xf8\0\0\0\0\0\0", 8), std::uint64_t{7});
  for (const char* const text : {"a = 258", "b = -2", "c = 1.5", "d = 7"}) {
    EXPECT_EQ(truth(text, columns, "", value), true) << text;
  }
}

TEST(columns, beyond_the_end_of_a_value_are_null) {
  const layout columns("a u32, b f64, c bytes");
  const std::string whole = packed(std::uint32_t{1}, 2.0);
  EXPECT_EQ(truth("c = ''", columns, "", whole), true);
  EXPECT_EQ(truth("c = ''", columns, "", whole.substr(0, 11)), std::nullopt);
  EXPECT_EQ(truth("b = 2", columns, "", whole.substr(0, 11)), std::nullopt);
  EXPECT_EQ(truth("b != 2", columns, "", whole.substr(0, 11)), std::nullopt);
  EXPECT_EQ(truth("a = 1", columns, "", whole.substr(0, 4)), true);
  EXPECT_EQ(truth("a = 1", columns, "", whole.substr(0, 3)), std::nullopt);
  EXPECT_EQ(truth("a < 9223372036854775808", columns, "", ""), std::nullopt)
      << "it holds for every number, but not for null";
  EXPECT_EQ(truth("a + 1 = 2", columns, "", ""), std::nullopt);
}

TEST(patterns, are_searched_for) {
  holds("'abc' ~ 'b'");
  holds("'abc' ~ '^a.c$'");
  fails("'abc' ~ '^b'");
  holds("'abc' !~ '^b'");
  is_null("null ~ 'a'");
  holds("x'ff' ~ '^.$'");
  holds("x'ff' ~ '\\xff'");
  holds("key ~ 'e'");
}

TEST(json, finds_values_by_path) {
  const std::string value =
      R"({"a": {"b": [1, -2, 3.5, "four", true, null]}, "big": 18446744073709551615, "x y": 1, "s": "a\u00e9"})";
  const auto of = [&](std::string_view text) { return truth(text, {}, "", value); };
  for (const char* const text : {"json(value, 'a.b[0]') = 1",
                                 "json(value, 'a.b[1]') < -1.5",
                                 "json(value, 'a.b[2]') > 3",
                                 "json(value, 'a.b[3]') = 'four'",
                                 "json(value, 'a.b[4]')",
                                 "json(value, 'a.b[4]') = true",
                                 "is_null(json(value, 'a.b[5]'))",
                                 "is_null(json(value, 'a.b[6]'))",
                                 "is_null(json(value, 'a'))",
                                 "is_null(json(value, 'none.b'))",
                                 "json(value, 'big') = 18446744073709551615",
                                 "json(value, '[\"x y\"]') = 1",
                                 "json(value, 'a.b[0]') + 1 = 2.0",
                                 "i64(json(value, 'a.b[0]')) + 1 = 2",
                                 "json(value, 's') = x'61c3a9'",
                                 "length(json(value, 's')) = 3",
                                 "json(value, 'a.b[3]') like 'f%'",
                                 "json(value, 'a.b[0]') in (3, 1)",
                                 "json(value, 'a.b[0]') between 0 and 1.5",
                                 "json(value, 'a.b[0]') < json(value, 'a.b[2]')",
                                 "coalesce(json(value, 'none'), 'x') = 'x'",
                                 "u64(json(value, 'big')) = 18446744073709551615",
                                 "json(value, 'a.b[0]') & 1 = 1",
                                 "if(json(value, 'a.b[4]'), json(value, 'a.b[3]'), json(value, 's')) = 'four'"}) {
    EXPECT_EQ(of(text), true) << text;
  }
  EXPECT_EQ(of("json(value, 'a.b[3]') = 4"), std::nullopt) << "text and number cannot be compared";
  EXPECT_EQ(of("json(value, 'a.b[3]') + 1 = 2"), std::nullopt);
  EXPECT_EQ(truth("json(value, 'a') = 1", {}, "", "no json"), std::nullopt);
  EXPECT_EQ(truth("json(value, 'a') = 1", {}, "", R"({"a": 1} rubbish)"), std::nullopt);
  EXPECT_EQ(truth("json(value, '') = 7", {}, "", "7"), true);
}

}  // namespace
}  // namespace icecore::testing
