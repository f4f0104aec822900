// From the text of an expression to its tree: operators by precedence (Pratt, "Top Down Operator Precedence", 1973).
//
//   node tree = parse("price > 100.0 and starts_with(key, 'eu/')", columns);
//
// Threads: pure. Cost: O(bytes of the text); recursion is bounded by `depth_max`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "filter/tree/node.hpp"

namespace icecore::detail {

/// A column that an expression may name.
struct named_field {
  std::string name;
  field place;

  friend bool operator==(const named_field&, const named_field&) = default;
};

/// The tree of `text`, not checked for types yet. errc::bad_input with position, what was expected and the nearest
/// name.
[[nodiscard]] node parse(std::string_view text, const std::vector<named_field>& columns);

/// An expression with a name: `price * qty as total`, or else its own text.
[[nodiscard]] named_tree parse_selected(std::string_view text, const std::vector<named_field>& columns);

/// The columns of a layout's text, "price f64, qty u32 be, tag bytes(8), name bytes". errc::bad_input as for parse().
[[nodiscard]] std::vector<named_field> parse_layout(std::string_view text);

}  // namespace icecore::detail
