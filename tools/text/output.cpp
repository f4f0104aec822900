#include "text/output.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "icecore/error.hpp"
#include "text/file_error.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 16U;

}  // namespace

void output::write(std::string_view bytes) {
  // relaxed: nothing else is told by it
  if (output_interrupted.load(std::memory_order_relaxed) && to_ == nullptr) {
    buffer_.clear();
    throw interrupted_output{};
  }
  if (buffer_.size() + bytes.size() > buffer_bytes) {
    flush();
    if (bytes.size() >= buffer_bytes) {
      write_all(bytes);
      return;
    }
  }
  buffer_ += bytes;
}

void output::flush() {
  // The buffer is emptied first, so a failure does not lead to writing bytes twice.
  const std::string pending = std::exchange(buffer_, {});
  write_all(pending);
}

void output::write_all(std::string_view bytes) {
  if (to_ != nullptr) {
    *to_ += bytes;
    return;
  }
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno == EPIPE) throw closed_pipe{};
      fail_on_file(name_, "writing");
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

output& out() {
  static output standard(STDOUT_FILENO, "standard output");
  return standard;
}

bool stdout_is_terminal() noexcept {
  static const bool is = ::isatty(STDOUT_FILENO) == 1;
  return is;
}

bool stderr_is_terminal() noexcept {
  static const bool is = ::isatty(STDERR_FILENO) == 1;
  return is;
}

std::size_t terminal_columns() noexcept {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 && ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0) return 80;
  return size.ws_col == 0 ? 80 : size.ws_col;
}

table::table(std::vector<std::string> headings) {
  for (std::string& heading : headings) {
    right_.push_back(heading.starts_with('>'));
    if (right_.back()) heading.erase(0, 1);
  }
  rows_.push_back(std::move(headings));
}

void table::print(output& to) const {
  if (rows_.size() < 2) return;
  std::vector<std::size_t> widths(right_.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string gap(widths[i] - width(row[i]), ' ');
      if (i > 0) line += "  ";
      line += right_[i] ? gap + row[i] : row[i] + gap;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    to.line(line);
  }
}

}  // namespace icecore::cli
