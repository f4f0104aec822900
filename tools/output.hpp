// Standard output: buffered, and quiet when its reader goes away (`icecore scan ... | head`).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace icecore::cli {

/// Thrown when nobody reads our output any more; main() then ends with exit_code::ok.
struct closed_pipe {};

/// Bytes to a file descriptor, or a string, through a buffer. Not for two threads at once.
class output {
 public:
  explicit output(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}
  /// To a string in place of a file.
  explicit output(std::string& to) : to_(&to) {}
  output(const output&) = delete;
  output& operator=(const output&) = delete;

  /// closed_pipe; errc::no_space, errc::io naming the file.
  void write(std::string_view bytes);
  void line(std::string_view text) {
    write(text);
    write("\n");
  }
  /// To be called before the end: a destructor could not report what it failed to write.
  void flush();

 private:
  void write_all(std::string_view bytes);

  int descriptor_ = -1;
  std::string* to_ = nullptr;
  std::string name_;
  std::string buffer_;
};

/// Standard output.
[[nodiscard]] output& out();

[[nodiscard]] bool stdout_is_terminal() noexcept;
[[nodiscard]] bool stderr_is_terminal() noexcept;
/// Columns of the terminal on standard output or error; 80 if unknown.
[[nodiscard]] std::size_t terminal_columns() noexcept;

/// Rows under a heading, columns as wide as their widest cell.
class table {
 public:
  /// Columns whose heading begins with '>' are right-aligned.
  explicit table(std::vector<std::string> headings);
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Without rows it prints nothing.
  void print(output& to) const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;  // the headings first
};

}  // namespace icecore::cli
