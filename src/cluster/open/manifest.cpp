#include "cluster/open/manifest.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <sstream>
#include <string_view>

#include "icecore/error.hpp"

namespace icecore::mpi {
namespace {

struct kind_of_manifest {
  std::string_view file;
  std::string_view first_line;
};
constexpr kind_of_manifest kinds[] = {{"manifest", "icecore cluster 1"}, {"checkpoint", "icecore checkpoint 1"}};

constexpr const kind_of_manifest& kind_of(manifest_of what) { return kinds[static_cast<std::size_t>(what)]; }

constexpr std::size_t id_size = 32;

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
  /// Some file systems cannot sync folders and report this: a name is as durable there as it can be.
  void sync_folder() const {
    if (::fsync(fd_) != 0 && errno != EINVAL && errno != ENOTSUP) raise_errno("fsync", path_);
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

std::string text_of(const manifest& content, manifest_of what) {
  std::string text = fmt::format("{}\nid {}\nranks {}\nowner {}\n", kind_of(what).first_line, content.id, content.ranks,
                                 content.owner);
  for (std::size_t rank = 0; rank < content.pools.size(); ++rank) {
    text += fmt::format("pool {} {}\n", rank, content.pools[rank]);
  }
  return text;
}

/// Empty if the text is not understood.
std::optional<manifest> parsed(const std::string& text, manifest_of what) {
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != kind_of(what).first_line) return std::nullopt;
  manifest content;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name == "id") {
      words >> content.id;
    } else if (name == "ranks") {
      words >> content.ranks;
    } else if (name == "owner") {
      std::getline(words >> std::ws, content.owner);
    } else if (name == "pool") {
      std::size_t rank = 0;
      words >> rank >> content.pools.emplace_back();
      if (rank + 1 != content.pools.size()) return std::nullopt;
    } else {
      return std::nullopt;
    }
    if (words.fail()) return std::nullopt;
  }
  const bool complete = !content.id.empty() && content.ranks > 0 && !content.owner.empty() &&
                        content.pools.size() == static_cast<std::size_t>(content.ranks);
  return complete ? std::optional(content) : std::nullopt;
}

/// The id in the name of a checkpoint's file, complete or not; empty if `name` is not such a name.
std::string_view id_of_part(std::string_view name) noexcept {
  constexpr std::string_view begin = "rank-";
  const std::size_t dot = name.find('.');
  if (!name.starts_with(begin) || dot == std::string_view::npos) return {};
  const std::string_view rank = name.substr(begin.size(), dot - begin.size());
  const std::string_view remaining = name.substr(dot + 1);
  const std::string_view id = remaining.substr(0, id_size);
  const bool named_so = !rank.empty() && rank.find_first_not_of("0123456789") == std::string_view::npos &&
                        id.size() == id_size && id.find_first_not_of("0123456789abcdef") == std::string_view::npos &&
                        remaining.substr(id_size).starts_with(".ice");
  return named_so ? id : std::string_view();
}

}  // namespace

void make_folder(const std::filesystem::path& path) {
  std::error_code failure;
  std::filesystem::path made = std::filesystem::absolute(path, failure);
  while (!failure && made.has_relative_path() && !std::filesystem::exists(made.parent_path(), failure)) {
    made = made.parent_path();
  }
  const bool is_new = !failure && std::filesystem::create_directories(path, failure);
  if (!failure) {
    // makes the names of all new folders durable
    for (auto at = std::filesystem::absolute(path); is_new && at.has_relative_path(); at = at.parent_path()) {
      descriptor(at.parent_path(), O_RDONLY | O_DIRECTORY).sync_folder();
      if (at == made) break;
    }
    return;
  }
  const bool denied = failure == std::errc::permission_denied || failure == std::errc::read_only_file_system;
  throw error(denied ? errc::permission : errc::io,
              fmt::format("{}: cannot make the folder: {}", path.native(), failure.message()));
}

std::filesystem::path pool_path(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank-{}.ice", rank);
}

bool is_pool_name(std::string_view name) noexcept {
  constexpr std::string_view begin = "rank-";
  constexpr std::string_view end = ".ice";
  if (name.size() <= begin.size() + end.size() || !name.starts_with(begin) || !name.ends_with(end)) return false;
  const std::string_view rank = name.substr(begin.size(), name.size() - begin.size() - end.size());
  return rank.find_first_not_of("0123456789") == std::string_view::npos;
}

std::filesystem::path checkpoint_part(const std::filesystem::path& folder, std::string_view id, int rank) {
  return folder / fmt::format("rank-{}.{}.ice", rank, id);
}

std::string random_id() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", source(), source(), source(), source());
}

bool has_manifest(const std::filesystem::path& folder, manifest_of what) {
  return ::access((folder / kind_of(what).file).c_str(), F_OK) == 0 || errno != ENOENT;
}

std::optional<manifest> read_manifest(const std::filesystem::path& folder, manifest_of what) {
  if (!has_manifest(folder, what)) return std::nullopt;
  const std::filesystem::path path = folder / kind_of(what).file;
  std::optional<manifest> content = parsed(descriptor(path, O_RDONLY).read_all(), what);
  if (!content) {
    throw error(
        errc::other_cluster,
        fmt::format(
            "{}: does not begin with '{}' or is incomplete: it is another kind of file, or a newer icecore wrote it",
            path.native(), kind_of(what).first_line));
  }
  return content;
}

void write_manifest(const std::filesystem::path& folder, const manifest& content, int writer, manifest_of what) {
  const std::filesystem::path path = folder / kind_of(what).file;
  const std::filesystem::path unfinished = folder / fmt::format("{}.{}", kind_of(what).file, writer);
  {
    const descriptor file(unfinished, O_WRONLY | O_CREAT | O_TRUNC);
    file.write(text_of(content, what));
    file.sync();
  }
  const descriptor directory(folder, O_RDONLY | O_DIRECTORY);  // may fail, so it comes before the rename
  if (::rename(unfinished.c_str(), path.c_str()) != 0) raise_errno("rename", path);
  directory.sync_folder();
}

void remove_manifest(const std::filesystem::path& folder) noexcept {
  std::error_code ignored;
  std::filesystem::remove(folder / kind_of(manifest_of::cluster).file, ignored);
}

folder_lock::folder_lock(const std::filesystem::path& folder)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) raise_errno("open", folder);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;  // or the file system has no locks
  ::close(descriptor_);
  throw error(errc::locked, fmt::format("{}: another checkpoint is being written there; wait for it, or choose another "
                                        "folder",
                                        folder.native()));
}

folder_lock::~folder_lock() { ::close(descriptor_); }

void folder_lock::remove_other_parts(const std::string& kept_id) const noexcept {
  const int descriptor = ::openat(descriptor_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const folder = descriptor < 0 ? nullptr : ::fdopendir(descriptor);
  if (folder == nullptr) {  // a file that stays takes space and does no other harm
    if (descriptor >= 0) ::close(descriptor);
    return;
  }
  while (const dirent* each = ::readdir(folder)) {
    const std::string_view id = id_of_part(each->d_name);
    if (!id.empty() && id != kept_id) ::unlinkat(descriptor_, each->d_name, 0);
  }
  ::closedir(folder);
}

void complete_checkpoint(const std::filesystem::path& folder, const manifest& content) {
  for (int rank = 0; rank < content.ranks; ++rank) {
    const std::filesystem::path part = checkpoint_part(folder, content.id, rank);
    if (std::filesystem::exists(part)) continue;
    throw error(errc::io, fmt::format("{}: rank {} has written this file, but rank 0 does not see it: all ranks must "
                                      "share the checkpoint's folder",
                                      part.native(), rank));
  }
  write_manifest(folder, content, 0, manifest_of::checkpoint);
}

}  // namespace icecore::mpi
