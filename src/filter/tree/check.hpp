// The types of a tree: each operation's operands must fit, or the expression is refused before it reads a row.
//
// Threads: pure. Cost: O(nodes).
#pragma once

#include <string_view>

#include "filter/tree/node.hpp"
#include "filter/tree/origin.hpp"

namespace icecore::detail {

/// Sets the type of every node, bottom-up, and refuses operands of types that do not fit.
void check(node& tree, const origin& from);

/// What a user calls the type.
[[nodiscard]] std::string_view name_of(kind type) noexcept;

/// The type of both where either may come out, as of if(c, a, b); null if they have none in common. A number of JSON
/// has the type of the other.
[[nodiscard]] kind common_type(kind a, kind b, bool& fits) noexcept;

}  // namespace icecore::detail
