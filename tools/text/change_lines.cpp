#include "text/change_lines.hpp"

#include <fmt/format.h>

#include "icecore/error.hpp"
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

std::string json_line(const key_change& c, bool hex) {
  std::string line = fmt::format("{{\"version\":{},\"key\":", c.version);
  append_json(line, c.key, hex);
  line += ",\"value\":";
  if (c.value) {
    append_json(line, *c.value, hex);
  } else {
    line += "null";
  }
  return line + fmt::format(",\"first\":{}}}", c.first);
}

}  // namespace

change_format change_format_named(std::string_view name) {
  if (name == "table") return change_format::table;
  if (name == "json") return change_format::json;
  if (name == "csv") return change_format::csv;
  throw error(errc::invalid_argument, fmt::format("-o {}: it is 'table', 'json' or 'csv'", name));
}

std::string change_line(const key_change& c, change_format as, bool hex) {
  const std::string_view value = c.value.value_or(std::string_view());
  const auto shown_text = [&](std::string_view bytes) { return hex ? to_hex(bytes) : shown(bytes); };
  const auto field = [&](std::string_view bytes) { return csv_field(hex ? to_hex(bytes) : std::string(bytes)); };
  switch (as) {
    case change_format::json:
      return json_line(c, hex);
    case change_format::csv:
      return fmt::format("{},{},{},{}", c.version, c.value ? "insert" : "remove", field(c.key), field(value));
    case change_format::table:
      break;
  }
  return fmt::format("{}\t{}\t{}\t{}", c.version, c.value ? '+' : '-', shown_text(c.key), shown_text(value));
}

std::string_view change_heading(change_format as) noexcept {
  return as == change_format::csv ? "version,change,key,value" : "";
}

}  // namespace icecore::cli
