// Expressions as text in normal form: one blank between words, parentheses only where they are needed.
//
// Threads: pure. Cost: O(bytes of the text).
#pragma once

#include <string>
#include <string_view>

#include "filter/tree/node.hpp"

namespace icecore::detail {

/// Text from which parse() makes the same tree; of a tree with functions of the caller, text to be read by people
/// alone.
[[nodiscard]] std::string text_of(const node& tree);

/// A literal of bytes: 'text', or x'00ff' if it has bytes that are not printable.
[[nodiscard]] std::string literal_of_bytes(std::string_view bytes);

}  // namespace icecore::detail
