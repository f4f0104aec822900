#include "text/change_lines.hpp"

#include <fmt/format.h>

#include "text/json.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

std::string csv_field(std::string_view bytes) {
  if (bytes.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(bytes);
  std::string field = "\"";
  for (const char c : bytes) {
    if (c == '"') field += '"';
    field += c;
  }
  return field + '"';
}

std::string json_line(const key_change& c, const hex_arguments& hex) {
  std::string line = fmt::format("{{\"version\":{},\"key\":", c.version);
  append_json(line, c.key, hex.keys());
  line += ",\"value\":";
  if (c.value) {
    append_json(line, *c.value, hex.values());
  } else {
    line += "null";
  }
  return line + fmt::format(",\"first\":{}}}", c.first);
}

}  // namespace

change_format change_format_of(format as) noexcept {
  return as == format::json ? change_format::json : as == format::csv ? change_format::csv : change_format::table;
}

std::string change_line(const key_change& c, change_format as, const hex_arguments& hex) {
  const std::string_view value = c.value.value_or(std::string_view());
  const auto shown_text = [](std::string_view bytes, bool digits) { return digits ? to_hex(bytes) : shown(bytes); };
  const auto field = [](std::string_view bytes, bool digits) {
    return csv_field(digits ? to_hex(bytes) : std::string(bytes));
  };
  switch (as) {
    case change_format::json:
      return json_line(c, hex);
    case change_format::csv:
      return fmt::format("{},{},{},{}", c.version, c.value ? "insert" : "remove", field(c.key, hex.keys()),
                         field(value, hex.values()));
    case change_format::table:
      break;
  }
  return fmt::format("{}\t{}\t{}\t{}", c.version, c.value ? '+' : '-', shown_text(c.key, hex.keys()),
                     shown_text(value, hex.values()));
}

std::string_view change_heading(change_format as) noexcept {
  return as == change_format::csv ? "version,change,key,value" : "";
}

}  // namespace icecore::cli
