#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

#include "reference.hpp"

namespace icecore::testing {
namespace {

using tag = tagged::tag;

const std::vector<std::string> comparisons = {"=", "!=", "<", "<=", ">", ">="};

bool is_function(const std::string& op) {
  return op == "if" || op == "coalesce" || op == "is_null" || op == "length" || op == "substr" || op == "starts_with" ||
         op == "ends_with" || op == "contains" || op == "i64" || op == "u64" || op == "f64";
}

std::string literal_text(const tagged& v, bool sql) {
  switch (v.is) {
    case tag::null:
      return "null";
    case tag::boolean:
      return sql ? (v.boolean ? "1" : "0") : (v.boolean ? "true" : "false");
    case tag::real: {
      std::string out = fmt::format("{}", v.real);
      if (out.find_first_of(".e") == std::string::npos) out += ".0";
      return "(" + out + ")";
    }
    case tag::integer:
      return "(" + shown(v) + ")";
    default:
      return shown(v);
  }
}

template <typename Text>
std::string list(const expression& one, std::size_t from, Text text) {
  std::string out = "(";
  for (std::size_t i = from; i < one.of.size(); ++i) out += (i > from ? ", " : "") + text(one.of[i]);
  return out + ")";
}

/// What is written alike in both languages.
template <typename Text>
std::string written(const expression& one, Text text) {
  if (one.op == "between") {
    return "(" + text(one.of[0]) + " between " + text(one.of[1]) + " and " + text(one.of[2]) + ")";
  }
  if (one.op == "in") return "(" + text(one.of[0]) + " in " + list(one, 1, text) + ")";
  if (one.op == "like") return "(" + text(one.of[0]) + " like '" + one.literal.bytes + "')";
  if (one.of.size() == 1) return "(" + one.op + " " + text(one.of[0]) + ")";
  std::string out = "(";
  for (std::size_t i = 0; i < one.of.size(); ++i) out += (i > 0 ? " " + one.op + " " : "") + text(one.of[i]);
  return out + ")";
}

}  // namespace

std::string text_of(const expression& one) {
  if (one.op == "literal") return literal_text(one.literal, false);
  if (one.of.empty()) return one.op;
  const auto text = [](const expression& each) { return text_of(each); };
  if (is_function(one.op)) return one.op + list(one, 0, text);
  return written(one, text);
}

std::string sql_of(const expression& one) {
  if (one.op == "literal") return literal_text(one.literal, true);
  if (one.of.empty()) return one.op;
  const auto text = [](const expression& each) { return sql_of(each); };
  const auto x = [&](std::size_t i) { return sql_of(one.of[i]); };
  if (one.op == "if") return "(case when " + x(0) + " then " + x(1) + " else " + x(2) + " end)";
  if (one.op == "coalesce") return one.of.size() == 1 ? x(0) : "coalesce" + list(one, 0, text);
  if (one.op == "is_null") return "(" + x(0) + " is null)";
  if (one.op == "starts_with") return "(instr(" + x(0) + ", " + x(1) + ") = 1)";
  if (one.op == "contains") return "(instr(" + x(0) + ", " + x(1) + ") > 0)";
  if (one.op == "substr") {  // of an empty blob SQLite gives null
    return "iif(" + x(0) + " = x'', x'', substr" + list(one, 0, text) + ")";
  }
  if (one.op == "like") return "(cast(" + x(0) + " as text) like '" + one.literal.bytes + "')";  // blobs match nothing
  if (one.op == "i64") return "cast(" + x(0) + " as integer)";
  if (one.op == "f64") return "cast(" + x(0) + " as real)";
  if (is_function(one.op)) return one.op + list(one, 0, text);
  return written(one, text);
}

tagged::tag random_expressions::any_type() {
  constexpr tag types[] = {tag::boolean, tag::integer, tag::integer, tag::real, tag::bytes};
  return types[below(std::size(types))];
}

wide random_expressions::whole() {
  if (for_sql_ || below(2) == 0) return static_cast<wide>(below(21)) - 10;
  constexpr wide one = 1;
  const wide edges[] = {-(one << 63),
                        -(one << 63) + 1,
                        -(one << 53) - 1,
                        (one << 53) + 1,
                        (one << 53),
                        (one << 63) - 1,
                        one << 63,
                        (one << 63) + 1,
                        (one << 64) - 1,
                        (one << 64) - 2,
                        one << 32,
                        (one << 31) - 1,
                        -(one << 31),
                        64,
                        63};
  return edges[below(std::size(edges))];
}

double random_expressions::number() {
  if (for_sql_ || below(2) == 0) return (static_cast<double>(below(81)) - 40) / 4;
  const double edges[] = {-0.0,
                          9007199254740992.0,
                          9007199254740994.0,
                          9223372036854775808.0,
                          -9223372036854775808.0,
                          18446744073709551616.0,
                          1e300,
                          -1e300,
                          5e-324,
                          0.1,
                          4294967296.5,
                          18446744073709549568.0};
  return edges[below(std::size(edges))];
}

std::string random_expressions::text() {
  constexpr char letters[] = {'a', 'b', 'c', '\xff', '\0'};
  std::string out(below(4), 'a');
  for (char& c : out) c = letters[below(for_sql_ ? 3 : std::size(letters))];
  return out;
}

expression random_expressions::leaf(tag type) {
  if (below(12) == 0) return {.op = "literal"};
  const bool constant = below(2) == 0;
  const auto one_of = [&](std::vector<std::string> names) { return expression{.op = names[below(names.size())]}; };
  switch (type) {
    case tag::boolean:
      if (for_sql_ || constant) return {.op = "literal", .literal = tagged::of(below(2) == 0)};
      return one_of({"removed", "first"});
    case tag::integer:
      if (constant) return {.op = "literal", .literal = tagged::of(whole())};
      if (for_sql_) return one_of({"a", "c"});
      return one_of({"a", "b", "c", "version", "before.a", "before.b"});
    case tag::real:
      if (constant) return {.op = "literal", .literal = tagged::of(number())};
      if (for_sql_) return one_of({"d", "e"});
      return one_of({"d", "e", "before.d"});
    default:
      if (constant) return {.op = "literal", .literal = tagged::of(text())};
      if (for_sql_) return one_of({"key", "s", "t"});
      return one_of({"key", "s", "t", "value", "before.t", "before.value"});
  }
}

expression random_expressions::make(tag type, int depth) {
  if (depth <= 0 || below(6) == 0) return leaf(type);
  if (below(8) == 0) return chosen(type, depth);
  switch (type) {
    case tag::boolean:
      return boolean(depth);
    case tag::integer:
      return integer(depth);
    case tag::real:
      return real(depth);
    default:
      return bytes(depth);
  }
}

/// `if` and `coalesce`, of any type.
expression random_expressions::chosen(tag type, int depth) {
  if (below(2) == 0) {
    return {.op = "if", .of = {make(tag::boolean, depth - 1), make(type, depth - 1), make(type, depth - 1)}};
  }
  expression one{.op = "coalesce"};
  for (std::size_t i = 0; i < 2 + below(2); ++i) one.of.push_back(make(type, depth - 1));
  return one;
}

expression random_expressions::boolean(int depth) {
  const int next = depth - 1;
  const auto number_type = [&] { return below(2) == 0 ? tag::integer : tag::real; };
  switch (below(10)) {
    case 0:
    case 1: {
      expression one{.op = below(2) == 0 ? "and" : "or"};
      for (std::size_t i = 0; i < 2 + below(2); ++i) one.of.push_back(make(tag::boolean, next));
      return one;
    }
    case 2:
      return {.op = "not", .of = {make(tag::boolean, next)}};
    case 3:
      return {.op = "is_null", .of = {make(any_type(), next)}};
    case 4: {
      const tag type = any_type();
      return {.op = "between", .of = {make(type, next), make(type, next), make(type, next)}};
    }
    case 5: {
      const tag type = any_type();
      expression one{.op = "in", .of = {make(type, next)}};
      const bool constants = below(2) == 0;
      for (std::size_t i = 0; i < 1 + below(4); ++i) one.of.push_back(make(type, constants ? 0 : next));
      return one;
    }
    case 6: {
      expression one{.op = "like", .of = {make(tag::bytes, next)}};
      constexpr char letters[] = {'a', 'b', '%', '_'};
      one.literal.bytes.resize(below(5));
      for (char& c : one.literal.bytes) c = letters[below(4)];
      return one;
    }
    case 7: {
      const std::vector<std::string> functions = {"starts_with", "contains", "ends_with"};
      return {.op = functions[below(for_sql_ ? 2 : 3)], .of = {make(tag::bytes, next), make(tag::bytes, next)}};
    }
    case 8:
      return {.op = comparisons[below(6)], .of = {make(number_type(), next), make(number_type(), next)}};
    default: {
      const tag type = any_type();
      return {.op = comparisons[below(6)], .of = {make(type, next), make(type, next)}};
    }
  }
}

expression random_expressions::integer(int depth) {
  const int next = depth - 1;
  switch (below(8)) {
    case 0:
      return {.op = "length", .of = {make(tag::bytes, next)}};
    case 1:
      if (for_sql_) return {.op = "~", .of = {make(tag::integer, next)}};
      return {.op = below(2) == 0 ? "i64" : "u64", .of = {make(below(3) == 0 ? tag::boolean : tag::real, next)}};
    case 2:
      return {.op = below(2) == 0 ? "-" : "~", .of = {make(tag::integer, next)}};
    case 3: {
      if (for_sql_) break;
      const std::vector<std::string> shifts = {"<<", ">>", "^"};
      return {.op = shifts[below(3)], .of = {make(tag::integer, next), make(tag::integer, next)}};
    }
    case 4:
      // what SQLite multiplies must stay small: it goes on with doubles
      return {.op = "*", .of = {make(tag::integer, for_sql_ ? 0 : next), make(tag::integer, for_sql_ ? 0 : next)}};
    default:
      break;
  }
  const std::vector<std::string> operators = {"+", "-", "/", "%", "&", "|"};
  return {.op = operators[below(6)], .of = {make(tag::integer, next), make(tag::integer, next)}};
}

expression random_expressions::real(int depth) {
  const int next = depth - 1;
  const auto number = [&] { return make(below(3) == 0 ? tag::integer : tag::real, next); };
  switch (below(5)) {
    case 0:
      return {.op = "f64", .of = {make(below(3) == 0 && !for_sql_ ? tag::boolean : tag::integer, next)}};
    case 1:
      return {.op = "-", .of = {make(tag::real, next)}};
    default: {
      const std::vector<std::string> operators = {"+", "-", "*", "/", "%"};
      return {.op = operators[below(for_sql_ ? 4 : 5)], .of = {make(tag::real, next), number()}};
    }
  }
}

expression random_expressions::bytes(int depth) {
  const int next = depth - 1;
  expression one{.op = "substr", .of = {make(tag::bytes, next), make(tag::integer, next)}};
  if (for_sql_) {  // counts below zero mean another thing there
    one.of[1] = {.op = "literal", .literal = tagged::of(static_cast<wide>(below(9)) - 4)};
    one.of.push_back({.op = "literal", .literal = tagged::of(static_cast<wide>(below(4)))});
  } else if (below(2) == 0) {
    one.of.push_back(make(tag::integer, next));
  }
  return one;
}

std::string random_expressions::packed_value() {
  std::string out;
  const auto put = [&](auto v) { out.append(reinterpret_cast<const char*>(&v), sizeof v); };
  const auto any_number = [&] {
    if (for_sql_ || below(6) != 0) return number();
    const double odd[] = {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                          std::numeric_limits<double>::quiet_NaN()};
    return odd[below(3)];
  };
  put(static_cast<std::int64_t>(whole()));
  put(static_cast<std::uint64_t>(whole()));
  put(static_cast<std::int32_t>(whole()));
  put(any_number());
  put(static_cast<float>(for_sql_ ? number() : std::fmod(any_number(), 1e30)));
  out += (text() + "bb").substr(0, 2) + text();
  if (below(5) == 0) out.resize(below(out.size()));
  return out;
}

reference_row random_expressions::row() {
  reference_row made{.key = text(), .value = packed_value(), .version = below(100)};
  if (for_sql_) return made;
  made.first = below(3) == 0;
  if (!made.first) made.before = packed_value();
  made.removed = below(6) == 0;
  if (made.removed) made.value.clear();
  if (below(10) == 0) made.version = std::numeric_limits<std::uint64_t>::max() - below(2);
  return made;
}

}  // namespace icecore::testing
