// Expressions as bytes that are kept, in queries and tokens, and read by all later releases.
//
//   size      meaning
//   2         'I' 'F'
//   1         version of the form: 1
//   …         the tree, each node before its operands:
//               1      number of the operation (node.hpp, F1)
//               …      what belongs to it:
//                        a literal integer: 1 if it is negative, else 0 (1 byte); two's complement (8 bytes)
//                        a number (boolean, double's bits, escape character + 1, revision): 8 bytes
//                        a text (bytes, pattern, path, name): length as varint, bytes
//                        a column: name as text, type (1 byte), flags (1: big-endian, 2: to the end), offset and size
//                        as varints
//               …      number of operands as varint, where the operation takes more than one number of them
//   4         CRC32C of all before
//
// Numbers are little-endian; varints have 7 bits a byte, the lowest first. A tree has one form: what differs from it is
// refused.
// Threads: pure. Cost: O(bytes).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "filter/tree/node.hpp"

namespace icecore::detail {

inline constexpr std::size_t stored_bytes_max = std::size_t{1} << 20;

[[nodiscard]] std::vector<std::byte> stored_form(const node& tree);

/// Of a list of expressions with names: 'I' 'S' in place of 'I' 'F', the number of expressions as varint, and before
/// each tree its name as a text.
[[nodiscard]] std::vector<std::byte> stored_form(const std::vector<named_tree>& list);
[[nodiscard]] std::vector<named_tree> read_stored_list(std::span<const std::byte> bytes);

/// The tree, not checked for types yet. errc::bad_token if the bytes are damaged, of a later release, or no expression.
[[nodiscard]] node read_stored(std::span<const std::byte> bytes);

}  // namespace icecore::detail
