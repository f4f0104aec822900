#include "json.hpp"

#include <fmt/format.h>

#include <array>

#include "icecore/error.hpp"

namespace icecore::cli {
namespace {

/// What follows the backslash of an escaped character; 0: it needs none.
constexpr std::array<char, 256> escapes = [] {
  std::array<char, 256> table{};
  table['"'] = '"';
  table['\\'] = '\\';
  table['\t'] = 't';
  table['\n'] = 'n';
  table['\r'] = 'r';
  return table;
}();

}  // namespace

std::string bytes_from_json(const json& value, std::string_view what) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.size() == 1 && value.contains("base64") && value["base64"].is_string()) {
    return from_base64(value["base64"].get_ref<const std::string&>());
  }
  throw error(errc::bad_input, fmt::format("\"{}\" is neither a string nor {{\"base64\": \"...\"}}", what));
}

void append_json(std::string& out, std::string_view bytes, bool hex) {
  if (hex) {
    fmt::format_to(std::back_inserter(out), "\"{}\"", to_hex(bytes));
    return;
  }
  if (!is_text(bytes)) {
    fmt::format_to(std::back_inserter(out), "{{\"base64\":\"{}\"}}", to_base64(bytes));
    return;
  }
  // In text, five characters need an escape; what lies between them is copied whole.
  out += '"';
  std::size_t copied = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char escape = escapes[static_cast<unsigned char>(bytes[i])];
    if (escape == 0) continue;
    out.append(bytes, copied, i - copied);
    out += '\\';
    out += escape;
    copied = i + 1;
  }
  out.append(bytes, copied);
  out += '"';
}

}  // namespace icecore::cli
