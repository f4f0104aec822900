#include "text/json.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <iterator>

#include "text/text.hpp"

namespace icecore::cli {
namespace {

/// The character after the backslash of an escaped character; 0: it needs no escape.
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

void append_json(std::string& out, std::string_view bytes, bool hex) {
  if (hex) {
    fmt::format_to(std::back_inserter(out), "\"{}\"", to_hex(bytes));
    return;
  }
  if (!is_text(bytes)) {
    fmt::format_to(std::back_inserter(out), "{{\"base64\":\"{}\"}}", to_base64(bytes));
    return;
  }
  // Text has only five characters that need an escape; the bytes between them are copied together.
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

json_object& json_object::bytes(std::string_view name, std::string_view value, bool hex) {
  std::string written;
  append_json(written, value, hex);
  return raw(name, written);
}

json_object& json_object::add(std::string_view name, double value) {
  if (!std::isfinite(value)) return raw(name, "null");
  std::string written = fmt::format("{}", value);
  // Readers would take a number without a decimal point for an integer.
  if (written.find_first_of(".e") == std::string::npos) written += ".0";
  return raw(name, written);
}

json_object& json_object::raw(std::string_view name, std::string_view value) {
  fmt::format_to(std::back_inserter(members_), "{}\"{}\":{}", members_.empty() ? "" : ",", name, value);
  return *this;
}

}  // namespace icecore::cli
