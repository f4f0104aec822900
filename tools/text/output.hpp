// Standard output: buffered, and silent when its reader ends early (`icecore scan ... | head`).
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace icecore::cli {

/// Thrown when the reader of our output has ended; main() then returns exit_code::ok.
struct closed_pipe {};

/// Set by a signal that ends what a verb of a shell prints: the next write to standard output throws
/// interrupted_output. Always lock-free, as a handler of signals needs.
inline std::atomic<bool> output_interrupted{false};
struct interrupted_output {};

/// Writes bytes to a file descriptor or a string through a buffer. Only one thread at a time may use it.
class output {
 public:
  explicit output(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}
  /// Writes to a string instead of a file.
  explicit output(std::string& to) : to_(&to) {}
  output(const output&) = delete;
  output& operator=(const output&) = delete;

  /// closed_pipe; errc::no_space and errc::io name the file.
  void write(std::string_view bytes);
  void line(std::string_view text) {
    write(text);
    write("\n");
  }
  /// Call this before the end: a destructor could not report a failed write.
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
/// Columns of the terminal on standard output or error; 80 if not known.
[[nodiscard]] std::size_t terminal_columns() noexcept;

/// Rows under a heading; each column is as wide as its widest cell.
class table {
 public:
  /// Columns whose heading begins with '>' are right-aligned.
  explicit table(std::vector<std::string> headings);
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Prints nothing if there are no rows.
  void print(output& to) const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;  // the headings first
};

}  // namespace icecore::cli
