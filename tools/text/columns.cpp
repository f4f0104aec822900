#include "text/columns.hpp"

#include <fmt/format.h>

#include <cmath>
#include <variant>

#include "text/json.hpp"
#include "text/output.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

/// A cell of CSV (RFC 4180): in quotes if it has a comma, a quote or an end of line.
std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"') made += '"';
    made += c;
  }
  return made + '"';
}

std::string real_text(double number, cli::format as) {
  return as == cli::format::json && !std::isfinite(number) ? "null" : fmt::format("{}", number);
}

}  // namespace

std::string number_text(const std::optional<result_number>& number, cli::format as) {
  if (!number) return as == cli::format::json ? "null" : "";
  if (const auto* const real = std::get_if<double>(&*number)) return real_text(*real, as);
  return std::visit([](auto n) { return fmt::format("{}", n); }, *number);
}

std::string column_printer::text(std::string_view bytes) const {
  if (as_ == cli::format::json) {
    std::string made;
    append_json(made, bytes, hex_);
    return made;
  }
  if (hex_) return to_hex(bytes);
  return as_ == cli::format::csv ? csv_cell(bytes) : shown(bytes);
}

std::string column_printer::cell(const result_values& column, std::size_t row) const {
  if (column.is_null(row)) return as_ == cli::format::json ? "null" : "";
  switch (column.type) {
    case result_type::boolean:
      return column.boolean(row) ? "true" : "false";
    case result_type::i64:
      return fmt::format("{}", column.i64(row));
    case result_type::u64:
      return fmt::format("{}", column.u64(row));
    case result_type::f64:
      return real_text(column.f64(row), as_);
    case result_type::bytes:
      break;
  }
  return text(column.text(row));
}

void column_printer::heading(const std::vector<std::string>& names) const {
  if (as_ == cli::format::json) return;
  const bool csv = as_ == cli::format::csv;
  std::string line;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) line += csv ? ',' : '\t';
    line += csv ? csv_cell(names[i]) : shown(names[i]);
  }
  out().line(line);
}

void column_printer::rows(const std::vector<result_values>& columns, std::size_t count) const {
  std::vector<std::string> names;
  names.reserve(columns.size());
  for (const result_values& column : columns) names.push_back(column.name);
  std::vector<std::string> cells(columns.size());
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t c = 0; c < columns.size(); ++c) cells[c] = cell(columns[c], i);
    row(names, cells);
  }
}

void column_printer::row(const std::vector<std::string>& names, const std::vector<std::string>& cells) const {
  const bool json = as_ == cli::format::json;
  std::string line;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    if (json) {
      line += c == 0 ? '{' : ',';
      append_json(line, names[c]);
      line += ':';
    } else if (c > 0) {
      line += as_ == cli::format::csv ? ',' : '\t';
    }
    line += cells[c];
  }
  if (json) line += '}';
  out().line(line);
}

}  // namespace icecore::cli
