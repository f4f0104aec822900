// Bytes as text: which bytes are text at all, how the others are shown, hexadecimal, base64, human sizes.
//
// Text is valid UTF-8 without control characters other than tab, line feed and carriage return. This one rule decides
// everywhere (tables, JSON, dumps) whether bytes are shown as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace icecore::cli {

[[nodiscard]] bool is_text(std::string_view bytes) noexcept;

/// For tables and messages: printable characters as they are; backslash, tab, line feed and carriage return as \\ \t \n
/// \r; each other byte as \xHH. One line, reversible. Stops after about `limit` columns with "..." if it is given.
[[nodiscard]] std::string shown(std::string_view bytes, std::size_t limit = std::string_view::npos);

/// Columns a terminal needs for text that shown() made: one a character.
[[nodiscard]] std::size_t width(std::string_view text) noexcept;

[[nodiscard]] std::string to_hex(std::string_view bytes);
/// Throws errc::invalid_argument: odd length, or not a hexadecimal digit.
[[nodiscard]] std::string from_hex(std::string_view digits);

[[nodiscard]] std::string to_base64(std::string_view bytes);
/// Standard alphabet with padding, nothing else: errc::bad_input.
[[nodiscard]] std::string from_base64(std::string_view text);

/// 1234567 as "1,234,567".
[[nodiscard]] std::string grouped(std::uint64_t number);
/// Bytes with three digits and a decimal unit: "1.23 MB".
[[nodiscard]] std::string human_bytes(double bytes);

}  // namespace icecore::cli
