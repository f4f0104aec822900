// Columns of results as text: tables with tabs, JSON objects, comma-separated values.
//
//   column_printer print(columns, format::json, hex);      // prints the heading, where there is one
//   print.rows(columns);
//
// A null is nothing in tables and CSV, and null in JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/filtered.hpp"
#include "line/arguments.hpp"

namespace icecore::cli {

class column_printer {
 public:
  column_printer(cli::format as, bool hex) noexcept : as_(as), hex_(hex) {}

  /// The names of the columns; nothing in JSON.
  void heading(const std::vector<std::string>& names) const;
  /// The first `count` rows.
  void rows(const std::vector<result_values>& columns, std::size_t count) const;
  /// A row of cells that text() and number_text() made.
  void row(const std::vector<std::string>& names, const std::vector<std::string>& cells) const;
  /// A cell with this text.
  [[nodiscard]] std::string text(std::string_view bytes) const;

 private:
  [[nodiscard]] std::string cell(const result_values& column, std::size_t row) const;

  cli::format as_;
  bool hex_;
};

/// A number as text; "null" or nothing if there is none.
[[nodiscard]] std::string number_text(const std::optional<result_number>& number, cli::format as);

}  // namespace icecore::cli
