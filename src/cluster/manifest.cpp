#include "cluster/manifest.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <string_view>

#include "icecore/error.hpp"

namespace icecore::mpi {
namespace {

constexpr std::string_view first_line = "icecore cluster 1";

[[noreturn]] void raise_errno(std::string_view call, const std::filesystem::path& path) {
  const int number = errno;
  errc code = errc::io;
  if (number == ENOSPC || number == EDQUOT) code = errc::no_space;
  if (number == EACCES || number == EPERM || number == EROFS) code = errc::permission;
  throw error(code, fmt::format("{}: {} failed: {}", path.native(), call, std::strerror(number)));
}

class descriptor {
 public:
  descriptor(const std::filesystem::path& path, int flags)
      : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (fd_ < 0) raise_errno("open", path_);
  }
  ~descriptor() { ::close(fd_); }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;

  void write(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t count = ::write(fd_, text.data(), text.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) raise_errno("write", path_);
      text.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  void sync() const {
    if (::fsync(fd_) != 0) raise_errno("fsync", path_);
  }
  [[nodiscard]] std::string read_all() const {
    std::string text;
    char part[4096];
    for (;;) {
      const ssize_t count = ::read(fd_, part, sizeof part);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) raise_errno("read", path_);
      if (count == 0) return text;
      text.append(part, static_cast<std::size_t>(count));
    }
  }

 private:
  std::filesystem::path path_;
  int fd_;
};

std::string text_of(const manifest& content) {
  std::string text =
      fmt::format("{}\nid {}\nranks {}\nowner {}\n", first_line, content.id, content.ranks, content.owner);
  for (std::size_t rank = 0; rank < content.pools.size(); ++rank) {
    text += fmt::format("pool {} {}\n", rank, content.pools[rank]);
  }
  return text;
}

std::filesystem::path path_in(const std::filesystem::path& folder) { return folder / "manifest"; }

/// Empty if it is not understood.
std::optional<manifest> parsed(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != first_line) return std::nullopt;
  manifest content;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "id") {
      words >> content.id;
    } else if (what == "ranks") {
      words >> content.ranks;
    } else if (what == "owner") {
      std::getline(words >> std::ws, content.owner);
    } else if (what == "pool") {
      std::size_t rank = 0;
      words >> rank >> content.pools.emplace_back();
      if (rank + 1 != content.pools.size()) return std::nullopt;
    } else {
      return std::nullopt;
    }
    if (words.fail()) return std::nullopt;
  }
  const bool whole = !content.id.empty() && content.ranks > 0 && !content.owner.empty() &&
                     content.pools.size() == static_cast<std::size_t>(content.ranks);
  return whole ? std::optional(content) : std::nullopt;
}

}  // namespace

std::filesystem::path pool_path(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank-{}.ice", rank);
}

std::optional<manifest> read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = path_in(folder);
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) return std::nullopt;
  std::optional<manifest> content = parsed(descriptor(path, O_RDONLY).read_all());
  if (!content) {
    throw error(errc::other_cluster,
                fmt::format("{}: is no manifest of a cluster, or one of a later icecore", path.native()));
  }
  return content;
}

void write_manifest(const std::filesystem::path& folder, const manifest& content, int writer) {
  const std::filesystem::path path = path_in(folder);
  const std::filesystem::path unfinished = folder / fmt::format("manifest.{}", writer);
  {
    const descriptor file(unfinished, O_WRONLY | O_CREAT | O_TRUNC);
    file.write(text_of(content));
    file.sync();
  }
  if (::rename(unfinished.c_str(), path.c_str()) != 0) raise_errno("rename", path);
  descriptor(folder, O_RDONLY | O_DIRECTORY).sync();
}

}  // namespace icecore::mpi
