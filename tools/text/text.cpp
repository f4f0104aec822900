#include "text/text.hpp"

#include <fmt/format.h>

#include <array>

#include "icecore/error.hpp"

namespace icecore::cli {
namespace {

/// The length of the UTF-8 sequence at the beginning of `bytes`; 0 if it is not valid (overlong forms, surrogates and
/// code points above U+10FFFF are not).
std::size_t sequence_length(std::string_view bytes) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || bytes.size() < length) return 0;
  unsigned low = 0x80;
  unsigned high = 0xbf;
  if (lead == 0xe0) low = 0xa0;
  if (lead == 0xed) high = 0x9f;
  if (lead == 0xf0) low = 0x90;
  if (lead == 0xf4) high = 0x8f;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return length;
}

/// C0 and C1 control characters and DEL, which could move a terminal's cursor or do worse.
bool is_control(std::string_view sequence) noexcept {
  const auto lead = static_cast<unsigned char>(sequence[0]);
  return lead < 0x20 || lead == 0x7f || (lead == 0xc2 && static_cast<unsigned char>(sequence[1]) < 0xa0);
}

bool is_white(char c) noexcept { return c == '\t' || c == '\n' || c == '\r'; }

constexpr std::string_view base64_digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::int8_t, 256> base64_values = [] {
  std::array<std::int8_t, 256> values{};
  values.fill(-1);
  for (std::size_t i = 0; i < base64_digits.size(); ++i) {
    values[static_cast<unsigned char>(base64_digits[i])] = static_cast<std::int8_t>(i);
  }
  return values;
}();

int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

bool is_text(std::string_view bytes) noexcept {
  std::size_t i = 0;
  while (i < bytes.size()) {
    if (const auto c = static_cast<unsigned char>(bytes[i]); c >= 0x20 && c < 0x7f) {
      ++i;
      continue;
    }
    const std::string_view rest = bytes.substr(i);
    const std::size_t length = sequence_length(rest);
    if (length == 0 || (is_control(rest) && !is_white(rest[0]))) return false;
    i += length;
  }
  return true;
}

std::string shown(std::string_view bytes, std::size_t limit) {
  std::string out;
  std::size_t columns = 0;
  while (!bytes.empty()) {
    if (columns >= limit) return out + "...";
    const std::size_t length = sequence_length(bytes);
    const std::size_t before = out.size();
    if (bytes[0] == '\\') {
      out += "\\\\";
    } else if (is_white(bytes[0])) {
      out += bytes[0] == '\t' ? "\\t" : bytes[0] == '\n' ? "\\n" : "\\r";
    } else if (length == 0 || is_control(bytes)) {
      // A control character of two bytes is shown as two escapes, because its second byte alone is not a sequence.
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(bytes[0]));
      if (length == 2) fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(bytes[1]));
    } else {
      out += bytes.substr(0, length);
    }
    columns += width(std::string_view(out).substr(before));
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string from_shown(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      bytes += text[i];
      continue;
    }
    const char kind = i + 1 < text.size() ? text[i + 1] : '\0';
    const std::size_t known = std::string_view("\\tnr").find(kind);
    if (known != std::string_view::npos && kind != '\0') {
      bytes += "\\\t\n\r"[known];
      i += 1;
      continue;
    }
    const int high = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
    const int low = i + 3 < text.size() ? hex_value(text[i + 3]) : -1;
    if (kind != 'x' || high < 0 || low < 0) {
      throw error(errc::bad_input, fmt::format("'{}': behind a backslash comes \\, t, n, r, or x and two hexadecimal "
                                               "digits; a backslash itself is \\\\",
                                               shown(text.substr(i, 4))));
    }
    bytes += static_cast<char>(high * 16 + low);
    i += 3;
  }
  return bytes;
}

std::size_t width(std::string_view text) noexcept {
  std::size_t columns = 0;
  for (const char c : text) columns += (static_cast<unsigned char>(c) & 0xc0U) != 0x80 ? 1 : 0;
  return columns;
}

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += digits[byte >> 4U];
    out += digits[byte & 15U];
  }
  return out;
}

std::string from_hex(std::string_view digits) {
  if (digits.size() % 2 != 0) {
    throw error(errc::invalid_argument, fmt::format("'{}': bytes in hexadecimal have two digits each, but there are {}",
                                                    shown(digits, 60), digits.size()));
  }
  std::string out;
  out.reserve(digits.size() / 2);
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    const int high = hex_value(digits[i]);
    const int low = hex_value(digits[i + 1]);
    if (high < 0 || low < 0) {
      throw error(errc::invalid_argument,
                  fmt::format("'{}': character {} is not a hexadecimal digit: bytes are pairs of 0-9 and a-f",
                              shown(digits, 60), high < 0 ? i + 1 : i + 2));
    }
    out += static_cast<char>(high * 16 + low);
  }
  return out;
}

std::string to_base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8U | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) out += j <= count ? base64_digits[group >> (18 - 6 * j) & 63U] : '=';
  }
  return out;
}

std::string from_base64(std::string_view text) {
  const auto fail = [](std::string_view what) { throw error(errc::bad_input, fmt::format("base64: {}", what)); };
  if (text.size() % 4 != 0) fail("its length is not a multiple of 4");
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::size_t digits = 4;
    if (i + 4 == text.size()) {
      while (digits > 2 && text[i + digits - 1] == '=') --digits;
    }
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      const int value = j < digits ? base64_values[static_cast<unsigned char>(text[i + j])] : 0;
      if (value < 0) fail(fmt::format("'{}' is not a base64 digit", shown(text.substr(i + j, 1))));
      group = group << 6U | static_cast<std::uint32_t>(value);
    }
    for (std::size_t j = 0; j + 1 < digits; ++j) out += static_cast<char>(group >> (16 - 8 * j) & 255U);
    // Bits beyond the last byte must be zero, so each byte string has only one encoding.
    if (digits < 4 && (group & ((1U << (8 * (4 - digits))) - 1)) != 0) fail("the unused bits at its end are not zero");
  }
  return out;
}

std::string grouped(std::uint64_t number) {
  std::string digits = fmt::format("{}", number);
  for (std::size_t i = digits.size(); i > 3;) {
    i -= 3;
    digits.insert(i, 1, ',');
  }
  return digits;
}

std::string counted(std::uint64_t number, std::string_view one, std::string_view several) {
  return grouped(number).append(" ").append(number == 1 ? one : several);
}

std::string human_bytes(double bytes) {
  constexpr std::array units = {"B", "kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < units.size()) {
    bytes /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f} B", bytes);
  return fmt::format("{:.{}f} {}", bytes, bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2, units[unit]);
}

}  // namespace icecore::cli
