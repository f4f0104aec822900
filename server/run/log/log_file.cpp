#include "run/log/log_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "icecore/error.hpp"

namespace icecore::server {

namespace {

int open_to_append(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0640);
  if (descriptor < 0) {
    throw error(errc::io, fmt::format("{}: the log cannot be opened: {}", path.string(), std::strerror(errno)));
  }
  return descriptor;
}

bool is_regular(int descriptor) {
  struct stat about {};
  return ::fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode);
}

}  // namespace

log_file::log_file(std::filesystem::path file)
    : path_(std::move(file)), descriptor_(path_.empty() ? STDERR_FILENO : open_to_append(path_)) {
  whole_ = is_regular(descriptor_);
}

log_file::~log_file() {
  if (!path_.empty()) ::close(descriptor_);
}

void log_file::reopen() {
  if (path_.empty()) return;
  const int fresh = open_to_append(path_);
  ::close(descriptor_);
  descriptor_ = fresh;
  whole_ = is_regular(fresh);
  mid_line_ = false;
}

std::string_view log_file::write(std::string_view lines, const std::function<bool()>& give_up) {
  if (mid_line_) {
    std::string_view line_feed = "\n";
    while (!line_feed.empty()) {
      if (!write_some(line_feed, give_up)) return lines;
    }
    mid_line_ = false;
  }
  std::string_view rest = lines;
  while (!rest.empty() && write_some(rest, give_up)) continue;
  const std::size_t done = lines.size() - rest.size();
  mid_line_ = !rest.empty() && done > 0 && lines[done - 1] != '\n';
  return rest;
}

/// Writes a piece, or nothing yet, and takes it off `rest`. False: stop trying. A pipe that poll() calls writable has
/// room for PIPE_BUF bytes, so that a piece of that size does not block.
bool log_file::write_some(std::string_view& rest, const std::function<bool()>& give_up) {
  constexpr int wait_ms = 100;
  constexpr std::size_t pipe_bytes = 4096;  // PIPE_BUF
  std::size_t piece = rest.size();
  if (!whole_) {
    if (give_up()) return false;
    pollfd waited{descriptor_, POLLOUT, 0};
    if (::poll(&waited, 1, wait_ms) == 0) return true;
    piece = std::min(piece, pipe_bytes);
  }
  const ssize_t written = ::write(descriptor_, rest.data(), piece);
  if (written < 0) return errno == EINTR || (errno == EAGAIN && !whole_);
  rest.remove_prefix(static_cast<std::size_t>(written));
  return true;
}

}  // namespace icecore::server
