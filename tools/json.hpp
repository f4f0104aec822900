// JSON as icecore writes it: one object a line, members in a fixed order.
//
// Bytes that are text (text.hpp) are a JSON string; all others are {"base64": "..."}. With --hex they are always a
// string of hexadecimal digits.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "text.hpp"

namespace icecore::cli {

using json = nlohmann::ordered_json;

[[nodiscard]] inline json bytes_to_json(std::string_view bytes, bool hex = false) {
  if (hex) return to_hex(bytes);
  if (is_text(bytes)) return std::string(bytes);
  return json{{"base64", to_base64(bytes)}};
}

/// The reverse of bytes_to_json(bytes). errc::bad_input, naming `what`.
[[nodiscard]] std::string bytes_from_json(const json& value, std::string_view what);

/// Appends `bytes` to `out` as bytes_to_json(bytes) would be written, without the copies: for dumps and scans.
void append_json(std::string& out, std::string_view bytes, bool hex = false);

}  // namespace icecore::cli
