// Reads keys and values from lines: tab-separated as `scan` prints them, or JSON as `scan -o json` does.
//
//   many_lines lines(STDIN_FILENO, "standard input", line_form::tsv, {});
//   while (const auto one = lines.next()) use(one->key, one->value);
//
//   tsv    KEY <tab> VALUE; \\ \t \n \r \xHH stand for bytes that a line cannot show (text.hpp, shown())
//   json   {"key": ..., "value": ...}: bytes are a string, or {"base64": ...}; a value of null is a removal. Other
//          members are passed over, so that the lines of `feed -o json` can be read.
//
// Every error is errc::bad_input, and its message begins with the input's name and the line's number. Memory: one line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "line/arguments.hpp"

namespace icecore::cli {

enum class line_form : std::uint8_t { tsv, json };

struct key_line {
  std::string key;
  std::optional<std::string> value;  ///< empty: the key is removed
};

class many_lines {
 public:
  many_lines(int descriptor, std::string name, line_form form, const hex_arguments& hex)
      : descriptor_(descriptor), name_(std::move(name)), form_(form), hex_(hex) {}
  many_lines(const many_lines&) = delete;
  many_lines& operator=(const many_lines&) = delete;

  /// The next line; empty at the end of the input.
  [[nodiscard]] std::optional<key_line> next();
  /// The number of the line that was read last; the first is 1.
  [[nodiscard]] std::uint64_t line_number() const noexcept { return line_number_; }
  /// Throws `what` with the number of the line that was read last.
  [[noreturn]] void fail(std::string_view what) const;

 private:
  [[nodiscard]] bool read_line();
  [[nodiscard]] bool fill();
  [[nodiscard]] key_line tsv_line() const;
  [[nodiscard]] key_line json_line() const;

  int descriptor_;
  std::string name_;
  line_form form_;
  hex_arguments hex_;
  std::string buffer_;
  std::size_t position_ = 0;  // in buffer_: the first byte after the lines that were read
  std::string_view line_;     // in buffer_
  std::uint64_t line_number_ = 0;
};

}  // namespace icecore::cli
