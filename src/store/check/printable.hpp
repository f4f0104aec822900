// Bytes of keys and names in messages.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace icecore::detail {

/// Makes bytes printable and short.
[[nodiscard]] inline std::string printable(std::string_view bytes) {
  constexpr std::size_t shown_max = 60;
  std::string text;
  for (const char c : bytes.substr(0, shown_max)) {
    if (c >= ' ' && c <= '~') {
      text += c;
    } else {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return bytes.size() > shown_max ? text + "..." : text;
}

}  // namespace icecore::detail
