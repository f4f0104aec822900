// What is wrong with an expression is found when it is made: position, what was expected, the nearest name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "filter/text/parser.hpp"
#include "icecore/error.hpp"
#include "icecore/filter.hpp"
#include "table.hpp"

namespace icecore::testing {
namespace {

const layout& trade() {
  static const layout columns("price f64, qty u32, name bytes(4), rest bytes");
  return columns;
}

std::string error_of(std::string_view text) {
  try {
    const filter made(text, trade());
  } catch (const error& told) {
    EXPECT_EQ(told.code(), errc::bad_input) << text;
    return told.message();
  }
  return "no error";
}

void expect_error(std::string_view text, std::size_t position, std::string_view message) {
  EXPECT_EQ(error_of(text), "expression, byte " + std::to_string(position) + ": " + std::string(message)) << text;
}

TEST(errors, tell_the_nearest_name) {
  expect_error("prize > 1", 0, "unknown column 'prize'; did you mean 'price'?");
  expect_error("qty > 1 and nmae = 'x'", 12, "unknown column 'nmae'; did you mean 'name'?");
  expect_error("before.prise > 1", 7, "unknown column 'prise'; did you mean 'price'?");
  expect_error("starts_wiht(key, 'a')", 0, "unknown function 'starts_wiht'; did you mean 'starts_with'?");
  expect_error("qty > 1 and x7 = 1", 12, "unknown column 'x7'");
  expect_error("QTY > 1", 0, "unknown column 'QTY'");
  EXPECT_TRUE(filter("KEY = 'a' AND Value IS NOT NULL").explain().starts_with("key = 'a' and not is_null(value)\n"));
}

TEST(errors, tell_what_was_expected_and_where) {
  expect_error("", 0, "an expression is empty; write 'true' for one that holds for every row");
  expect_error("qty >", 5, "expected an operand, found the end");
  expect_error("qty > )", 6, "expected an operand, found ')'");
  expect_error("(qty > 1", 8, "expected ')', found the end");
  expect_error("qty > 1 qty", 8, "expected an operator or the end, found 'qty'");
  expect_error("qty > 1 > 0", 8, "comparisons do not follow each other; join them by 'and'");
  expect_error("qty between 1 or 2", 14, "expected 'and' between the bounds of 'between', found 'or'");
  expect_error("qty in 1", 7, "expected '(', found '1'");
  expect_error("qty in ()", 8, "expected an operand, found ')'");
  expect_error("qty not 1", 8, "expected 'in', 'between' or 'like' after 'not', found '1'");
  expect_error("qty is 1", 7, "expected 'null' or 'not null' after 'is', found '1'");
  expect_error("name like qty", 10, "expected a pattern in quotes after 'like', found 'qty'");
  expect_error("name like 'a' escape 'ab'", 21, "expected one byte in quotes after 'escape'");
  expect_error("name like 'a!' escape '!'", 5, "the pattern of 'like' ends with its escape character");
  expect_error("name ~ qty", 7, "expected a pattern in quotes after '~', found 'qty'");
  expect_error("1 + not true", 4, "put 'not …' in parentheses here");
  expect_error("before = 1", 7, "expected '.value' or '.' and a column after 'before', found '='");
  expect_error("before.1 = 1", 6, "expected '.value' or '.' and a column after 'before', found '.1'");
  expect_error("length()  = 1", 0, "'length' takes 1 operand, and 0 are given");
  expect_error("if(true, 1) = 1", 0, "'if' takes 3 operands, and 2 are given");
  expect_error("substr(name) = 'a'", 0, "'substr' takes 2 or 3 operands, and 1 is given");
  expect_error("coalesce() = 1", 0, "'coalesce' takes 1 or more operands, and 0 are given");
  expect_error("json(value) = 1", 10, "expected ',', found ')'");
  expect_error("json(value, key) = 1", 12, "expected a path in quotes, such as 'a.b[2]', found 'key'");
}

TEST(errors, of_literals) {
  expect_error("qty > 18446744073709551616", 6,
               "'18446744073709551616' is greater than 2^64 - 1; write it as a double, such as 1e20");
  expect_error("qty > 1e999", 6, "'1e999' is beyond what a double holds");
  expect_error("qty > 1.2.3", 6, "'1.2.3' is not a number");
  expect_error("qty > 12ab", 6, "'12ab' is not a number");
  expect_error("qty > 0x", 6, "'0x' is not a number of 1 to 16 hexadecimal digits");
  expect_error("qty > 0x12345678123456781", 6, "'0x12345678123456781' is not a number of 1 to 16 hexadecimal digits");
  expect_error("name = 'abc", 7,
               "the text that begins here has no closing quote; a quote within it is written twice ('')");
  expect_error("name = x'ab", 7, "the bytes that begin here have no closing quote");
  expect_error("name = x'abc'", 7, "bytes are written as an even number of hexadecimal digits: x'00ff'");
  expect_error("name = x'abcg'", 11, "expected two hexadecimal digits");
  expect_error("name = \"abc\"", 7, "text is written in single quotes: 'text'");
  expect_error("qty > 1 ; 2", 8, "';' has no meaning here");
  expect_error("qty > \x01", 6, "'\\x01' has no meaning here");
}

TEST(errors, of_types) {
  expect_error("price like 'a'", 0, "'like' expects bytes, and this is a double");
  expect_error("name > 1", 5, "'>' cannot compare bytes with a whole number");
  expect_error("true = 1", 5, "'=' cannot compare true or false with a whole number");
  expect_error("qty in (1, 'a')", 4, "'in' cannot compare a whole number with bytes");
  expect_error("qty between 1 and 'a'", 4, "'between' cannot compare a whole number with bytes");
  expect_error("qty and true", 0, "'and' expects true or false, and this is a whole number");
  expect_error("true or name", 8, "'or' expects true or false, and this is bytes");
  expect_error("not qty", 4, "'not' expects true or false, and this is a whole number");
  expect_error("name + 1 = 1", 0, "'+' expects a number, and this is bytes");
  expect_error("price & 1 = 1", 0, "'&' expects a whole number, and this is a double");
  expect_error("-name = 1", 1, "'-' expects a number, and this is bytes");
  expect_error("if(qty, 1, 2) = 1", 3, "'if' expects true or false, and this is a whole number");
  expect_error("if(true, 1, 'a') = 1", 12, "'if' gives values of one type, and this is bytes beside a whole number");
  expect_error("coalesce(1, name) = 1", 12,
               "'coalesce' gives values of one type, and this is bytes beside a whole number");
  expect_error("substr(name, 'a') = 'a'", 13, "'substr' expects a whole number, and this is bytes");
  expect_error("length(qty) = 1", 7, "'length' expects bytes, and this is a whole number");
  expect_error("qty + 1", 4, "a filter is a condition, and this is a whole number");
  expect_error("key", 0, "a filter is a condition, and this is bytes");
}

TEST(errors, of_patterns_and_paths) {
  expect_error("name ~ 'a('", 7, "bad pattern: missing ): a(");
  expect_error("json(value, 'a..b') = 1", 12, "the path 'a..b', character 3: expected a name");
  expect_error("json(value, 'a[b]') = 1", 12,
               "the path 'a[b]', character 3: expected a position or a name in double quotes");
  expect_error("json(value, 'a[1') = 1", 12, "the path 'a[1', character 4: expected ']'");
  expect_error("json(value, 'a[\"x]') = 1", 12, "the path 'a[\"x]', character 3: the name has no closing quote");
}

TEST(errors, of_layouts) {
  const auto expect = [](std::string_view text, std::size_t position, std::string_view message) {
    try {
      const layout made(text);
      ADD_FAILURE() << text;
    } catch (const error& told) {
      EXPECT_EQ(told.code(), errc::bad_input);
      EXPECT_EQ(told.message(), "layout, byte " + std::to_string(position) + ": " + std::string(message)) << text;
    }
  };
  expect("price f46", 6,
         "expected a type (u8 to u64, i8 to i64, f32, f64, bytes(n), bytes), found 'f46'; did you mean 'f64'?");
  expect("price", 5, "expected a type (u8 to u64, i8 to i64, f32, f64, bytes(n), bytes), found the end");
  expect("a u8 b u8", 5, "expected ',' or the end, found 'b'");
  expect("a u8, a u8", 6, "two columns are called 'a'");
  expect("key u8", 0, "'key' is a word of the language; give the column another name");
  expect("a bytes, b u8", 9, "'bytes' without a size takes all that is left: no column follows it");
  expect("a bytes(0)", 8, "expected a number of bytes from 1 to 4294967295, found '0'");
  expect("a bytes(2", 9, "expected ')', found the end");
  expect("1 u8", 0, "expected the name of a column, found '1'");
  expect("a bytes(4294967295), b u8", 25, "columns of 4 GiB and more");
}

TEST(errors, of_nesting_and_length) {
  const auto nested = [](std::size_t levels) { return std::string(levels, '(') + "true" + std::string(levels, ')'); };
  EXPECT_EQ(error_of(nested(250)), "no error");
  EXPECT_THAT(error_of(nested(300)), ::testing::HasSubstr("nested deeper than 256 levels"));
  EXPECT_THAT(error_of(nested(30'000)), ::testing::HasSubstr("nested deeper than 256 levels"));
  std::string sum = "1";
  for (int i = 0; i < 300; ++i) sum += "+1";
  EXPECT_THAT(error_of(sum + "=1"), ::testing::HasSubstr("nested deeper than 256 levels"));
  std::string many = "qty=1";
  for (int i = 0; i < 5000; ++i) many += " or qty=1";
  EXPECT_EQ(error_of(many), "no error") << "operands of one 'or' do not nest";
  EXPECT_THAT(error_of(std::string(65537, ' ')),
              ::testing::HasSubstr("byte 65536: the text is longer than 65536 bytes"));
  std::string nots;
  for (int i = 0; i < 300; ++i) nots += "not ";
  EXPECT_THAT(error_of(nots + "true"), ::testing::HasSubstr("nested deeper than 256 levels"));
}

TEST(errors, of_joined_filters_that_nest_too_deep) {
  filter one("qty = 1", trade());
  EXPECT_THROW(
      {
        for (int i = 0; i < 300; ++i) {
          one = filter::any_of({filter::all_of({one, filter("qty = 2", trade())}), filter("qty = 3", trade())});
        }
      },
      error);
}

}  // namespace
}  // namespace icecore::testing
