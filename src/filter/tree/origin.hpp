// Where an expression came from, and so what an error in it is called: text of a user, or bytes that were stored.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "base/raise.hpp"

namespace icecore::detail {

struct origin {
  enum class source { text, stored } from = source::text;
  std::string_view what = "expression";

  /// errc::bad_input with the position in the text, or errc::bad_token of a stored expression.
  [[noreturn]] void refuse(std::size_t position, std::string_view message) const {
    if (from == source::stored) raise(errc::bad_token, "the stored filter is not valid: {}", message);
    raise(errc::bad_input, "{}, byte {}: {}", what, position, message);
  }
};

/// Text as an error shows it: in quotes, cut if it is long, with bytes that cannot be shown as escapes.
[[nodiscard]] inline std::string shown(std::string_view text) {
  constexpr std::size_t bytes_max = 40;
  std::string out = "'";
  for (const char c : text.substr(0, bytes_max)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + (text.size() > bytes_max ? "…'" : "'");
}

}  // namespace icecore::detail
