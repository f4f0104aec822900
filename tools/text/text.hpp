// Bytes as text: which bytes are text, how other bytes are shown, hexadecimal, base64, human-readable sizes.
//
// Text is valid UTF-8 without control characters other than tab, line feed and carriage return. Tables, JSON and dumps
// all use this rule to decide whether bytes are shown unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace icecore::cli {

[[nodiscard]] bool is_text(std::string_view bytes) noexcept;

/// For tables and messages. Shows printable characters unchanged, each other byte as \xHH, and backslash, tab, line
/// feed and carriage return as \\ \t \n \r. One line, reversible. If `limit` is given, stops after about `limit`
/// columns with "...".
[[nodiscard]] std::string shown(std::string_view bytes, std::size_t limit = std::string_view::npos);

/// The bytes that shown() made a text of. errc::bad_input for a backslash that shown() would not write.
[[nodiscard]] std::string from_shown(std::string_view text);

/// The terminal columns of a text that shown() made: one per character.
[[nodiscard]] std::size_t width(std::string_view text) noexcept;

[[nodiscard]] std::string to_hex(std::string_view bytes);
/// Throws errc::invalid_argument for an odd length or a character that is not a hexadecimal digit.
[[nodiscard]] std::string from_hex(std::string_view digits);

[[nodiscard]] std::string to_base64(std::string_view bytes);
/// Accepts only the standard alphabet with padding. errc::bad_input.
[[nodiscard]] std::string from_base64(std::string_view text);

/// 1234567 as "1,234,567".
[[nodiscard]] std::string grouped(std::uint64_t number);
/// "1 version has", "7 versions have".
[[nodiscard]] std::string counted(std::uint64_t number, std::string_view one, std::string_view several);
/// Bytes with three digits and a decimal unit: "1.23 MB".
[[nodiscard]] std::string human_bytes(double bytes);

}  // namespace icecore::cli
