// What is known of each operation: its name in text, how many operands it takes, what of a node it uses.
//
// Threads: the table is constant. Cost: O(1) by number, O(operations) by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "filter/tree/node.hpp"

namespace icecore::detail {

/// What of a node besides its operands is part of it, and is stored.
enum class payload : std::uint8_t { none, number, literal_integer, text, text_and_number, column };

/// How an operation is written.
enum class notation : std::uint8_t { literal, word, infix, prefix, function, special };

struct operation_facts {
  operation op;
  std::string_view name;  ///< as it is written: a sign or a word
  notation written;
  std::size_t operands_min;
  std::size_t operands_max;
  payload has;
  int precedence;  ///< of an infix or prefix operator: the higher binds first
};

inline constexpr std::size_t operands_max = 65536;

/// Of numbers that no operation has: null.
[[nodiscard]] const operation_facts* facts_of(std::uint8_t number) noexcept;
[[nodiscard]] inline const operation_facts& facts_of(operation op) noexcept {
  return *facts_of(static_cast<std::uint8_t>(op));
}

/// The function of this name, in small letters; null if there is none.
[[nodiscard]] const operation_facts* function_called(std::string_view name) noexcept;

/// The name, among those of functions and `others`, that differs least from `name`; empty if all differ much.
[[nodiscard]] std::string_view nearest_name(std::string_view name, const std::vector<std::string_view>& others);
[[nodiscard]] std::vector<std::string_view> function_names();

/// Names that a column may not have, since they are something else in an expression.
[[nodiscard]] bool is_reserved(std::string_view name) noexcept;

}  // namespace icecore::detail
