#include "filter/tree/operations.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace icecore::detail {
namespace {

using enum operation;

constexpr std::array table = {
    operation_facts{null, "null", notation::literal, 0, 0, payload::none, 0},
    operation_facts{boolean, "boolean", notation::literal, 0, 0, payload::number, 0},
    operation_facts{integer, "integer", notation::literal, 0, 0, payload::literal_integer, 0},
    operation_facts{real, "double", notation::literal, 0, 0, payload::number, 0},
    operation_facts{bytes, "bytes", notation::literal, 0, 0, payload::text, 0},
    operation_facts{key, "key", notation::word, 0, 0, payload::none, 0},
    operation_facts{value, "value", notation::word, 0, 0, payload::none, 0},
    operation_facts{version, "version", notation::word, 0, 0, payload::none, 0},
    operation_facts{removed, "removed", notation::word, 0, 0, payload::none, 0},
    operation_facts{first, "first", notation::word, 0, 0, payload::none, 0},
    operation_facts{before_value, "before.value", notation::word, 0, 0, payload::none, 0},
    operation_facts{column, "column", notation::special, 0, 0, payload::column, 0},
    operation_facts{before_column, "before column", notation::special, 0, 0, payload::column, 0},
    operation_facts{json, "json", notation::special, 1, 1, payload::text, 0},
    operation_facts{call, "call", notation::special, 0, 0, payload::text_and_number, 0},
    operation_facts{either, "or", notation::infix, 2, operands_max, payload::none, 1},
    operation_facts{both, "and", notation::infix, 2, operands_max, payload::none, 2},
    operation_facts{negation, "not", notation::prefix, 1, 1, payload::none, 3},
    operation_facts{equal, "=", notation::infix, 2, 2, payload::none, 4},
    operation_facts{unequal, "!=", notation::infix, 2, 2, payload::none, 4},
    operation_facts{less, "<", notation::infix, 2, 2, payload::none, 4},
    operation_facts{less_equal, "<=", notation::infix, 2, 2, payload::none, 4},
    operation_facts{greater, ">", notation::infix, 2, 2, payload::none, 4},
    operation_facts{greater_equal, ">=", notation::infix, 2, 2, payload::none, 4},
    operation_facts{between, "between", notation::special, 3, 3, payload::none, 4},
    operation_facts{in, "in", notation::special, 2, operands_max, payload::none, 4},
    operation_facts{like, "like", notation::special, 1, 1, payload::text_and_number, 4},
    operation_facts{match, "~", notation::special, 1, 1, payload::text, 4},
    operation_facts{bit_or, "|", notation::infix, 2, 2, payload::none, 5},
    operation_facts{bit_xor, "^", notation::infix, 2, 2, payload::none, 6},
    operation_facts{bit_and, "&", notation::infix, 2, 2, payload::none, 7},
    operation_facts{shift_left, "<<", notation::infix, 2, 2, payload::none, 8},
    operation_facts{shift_right, ">>", notation::infix, 2, 2, payload::none, 8},
    operation_facts{add, "+", notation::infix, 2, 2, payload::none, 9},
    operation_facts{subtract, "-", notation::infix, 2, 2, payload::none, 9},
    operation_facts{multiply, "*", notation::infix, 2, 2, payload::none, 10},
    operation_facts{divide, "/", notation::infix, 2, 2, payload::none, 10},
    operation_facts{remainder, "%", notation::infix, 2, 2, payload::none, 10},
    operation_facts{minus, "-", notation::prefix, 1, 1, payload::none, 11},
    operation_facts{bit_not, "~", notation::prefix, 1, 1, payload::none, 11},
    operation_facts{condition, "if", notation::function, 3, 3, payload::none, 0},
    operation_facts{coalesce, "coalesce", notation::function, 1, operands_max, payload::none, 0},
    operation_facts{is_null, "is_null", notation::function, 1, 1, payload::none, 0},
    operation_facts{length, "length", notation::function, 1, 1, payload::none, 0},
    operation_facts{substr, "substr", notation::function, 2, 3, payload::none, 0},
    operation_facts{starts_with, "starts_with", notation::function, 2, 2, payload::none, 0},
    operation_facts{ends_with, "ends_with", notation::function, 2, 2, payload::none, 0},
    operation_facts{contains, "contains", notation::function, 2, 2, payload::none, 0},
    operation_facts{to_i64, "i64", notation::function, 1, 1, payload::none, 0},
    operation_facts{to_u64, "u64", notation::function, 1, 1, payload::none, 0},
    operation_facts{to_f64, "f64", notation::function, 1, 1, payload::none, 0},
};

constexpr std::size_t numbers = 128;
constexpr auto by_number = [] {
  std::array<std::uint8_t, numbers> places{};  // one more than the place in the table; 0: none
  for (std::size_t i = 0; i < table.size(); ++i) {
    places[static_cast<std::uint8_t>(table[i].op)] = static_cast<std::uint8_t>(i + 1);
  }
  return places;
}();

constexpr std::array<std::string_view, 18> words = {"key", "value", "version", "removed", "first",   "before",
                                                    "and", "or",    "not",     "in",      "between", "like",
                                                    "is",  "null",  "true",    "false",   "escape",  "json"};

/// How many letters must be changed, put in, taken out or exchanged with the next to make one word of the other
/// (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> rows((a.size() + 1) * width);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& { return rows[i * width + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) at(i, 0) = i;
  for (std::size_t j = 0; j <= b.size(); ++j) at(0, j) = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, changed});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return at(a.size(), b.size());
}

}  // namespace

const operation_facts* facts_of(std::uint8_t number) noexcept {
  if (number >= numbers || by_number[number] == 0) return nullptr;
  return &table[by_number[number] - 1U];
}

const operation_facts* function_called(std::string_view name) noexcept {
  const auto* const found = std::find_if(table.begin(), table.end(), [&](const auto& one) {
    return one.written == notation::function && one.name == name;
  });
  return found == table.end() ? nullptr : &*found;
}

std::vector<std::string_view> function_names() {
  std::vector<std::string_view> names{"json"};
  for (const operation_facts& one : table) {
    if (one.written == notation::function) names.push_back(one.name);
  }
  return names;
}

std::string_view nearest_name(std::string_view name, const std::vector<std::string_view>& others) {
  constexpr std::size_t name_bytes_max = 64;  // longer names are data that was written without quotes
  if (name.size() > name_bytes_max) return {};
  std::string_view best;
  std::size_t least = name.size() / 2 + 1;  // from here on it is another word
  for (const std::string_view other : others) {
    if (other.size() > name_bytes_max) continue;
    const std::size_t distance = edit_distance(name, other);
    if (distance < least) {
      least = distance;
      best = other;
    }
  }
  return best;
}

bool is_reserved(std::string_view name) noexcept {
  return std::find(words.begin(), words.end(), name) != words.end() || function_called(name) != nullptr;
}

}  // namespace icecore::detail
