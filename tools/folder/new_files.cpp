#include "folder/new_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <utility>

#include "icecore/error.hpp"
#include "text/file_error.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

constexpr std::string_view unfinished_name = ".icecore-checkout";

std::vector<std::string> parts_of(std::string_view key) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from <= key.size();) {
    const std::size_t end = std::min(key.find('/', from), key.size());
    parts.emplace_back(key.substr(from, end - from));
    from = end + 1;
  }
  return parts;
}

constexpr int folder_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

void write_bytes(int file, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_on_file(path, "writing");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

std::optional<std::string> why_no_path(std::string_view key) {
  if (key.empty()) return "it is empty";
  if (key.starts_with('/')) return "it begins with /";
  if (key.find('\0') != std::string_view::npos) return "it has a zero byte";
  if (key.size() >= PATH_MAX) return fmt::format("it has {} bytes, and a path at most {}", key.size(), PATH_MAX - 1);
  for (const std::string& part : parts_of(key)) {
    if (part.empty()) return key.ends_with('/') ? "it ends with /" : "it has two slashes in a row";
    if (part == "." || part == "..") return fmt::format("a part of it is {}", part);
    if (part.size() > NAME_MAX) {
      return fmt::format("a part of it has {} bytes, and a file's name at most {}", part.size(), NAME_MAX);
    }
    if (part == unfinished_name) return fmt::format("{} is the name of a file that is being written", part);
  }
  return std::nullopt;
}

class new_files::descriptor {
 public:
  explicit descriptor(int number) noexcept : number_(number) {}
  ~descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int number_;
};

new_files::new_files(std::string folder, bool overwrite) : folder_(std::move(folder)), overwrite_(overwrite) {
  open_root();
}

new_files::~new_files() {
  for (const int one : opened_) ::close(one);
  if (root_ >= 0) ::close(root_);
}

std::string new_files::path_of(std::string_view key) const { return fmt::format("{}/{}", folder_, shown(key, 200)); }

void new_files::open_root() {
  root_ = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root_ < 0 && errno != ENOENT) fail_on_file(folder_, "opening the folder");
}

std::optional<std::string> new_files::in_the_way(std::string_view key) const {
  if (root_ < 0) return std::nullopt;
  std::vector<std::string> parts = parts_of(key);
  const std::string name = std::move(parts.back());
  parts.pop_back();
  int folder = ::fcntl(root_, F_DUPFD_CLOEXEC, 3);
  for (const std::string& part : parts) {
    const descriptor above(folder);
    folder = ::openat(above.number(), part.c_str(), folder_flags);
    if (folder >= 0) continue;
    if (errno == ENOENT) return std::nullopt;
    if (errno == ENOTDIR || errno == ELOOP) {  // of a symbolic link, systems say the one or the other
      struct stat found {};
      const bool link =
          ::fstatat(above.number(), part.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(found.st_mode);
      return fmt::format("{} is {}", shown(part, 80),
                         link ? "a symbolic link, which is not followed" : "there and is no folder");
    }
    fail_on_file(path_of(key), "opening its folder");
  }
  const descriptor inner(folder);
  struct stat status {};
  if (::fstatat(inner.number(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return std::nullopt;
    fail_on_file(path_of(key), "looking for it");
  }
  if (S_ISDIR(status.st_mode)) return "there is a folder of this name";
  if (!overwrite_) return "it is there already (--force replaces it)";
  return std::nullopt;
}

/// The open folder of a key's file, made if it is not there.
int new_files::folder_for(std::string_view key) {
  if (root_ < 0) {
    if (::mkdir(folder_.c_str(), 0777) != 0 && errno != EEXIST) fail_on_file(folder_, "making the folder");
    open_root();
    if (root_ < 0) fail_on_file(folder_, "opening the folder");
  }
  std::vector<std::string> parts = parts_of(key);
  parts.pop_back();
  // Keys come in order, so most are in the folder of the key before.
  const auto [mine, theirs] = std::ranges::mismatch(parts, parts_);
  const auto common = static_cast<std::size_t>(mine - parts.begin());
  while (opened_.size() > common) {
    ::close(opened_.back());
    opened_.pop_back();
    parts_.pop_back();
  }
  for (std::size_t i = common; i < parts.size(); ++i) {
    const int above = opened_.empty() ? root_ : opened_.back();
    if (::mkdirat(above, parts[i].c_str(), 0777) != 0 && errno != EEXIST)
      fail_on_file(path_of(key), "making its folder");
    const int folder = ::openat(above, parts[i].c_str(), folder_flags);
    if (folder < 0) fail_on_file(path_of(key), "opening its folder");
    opened_.push_back(folder);
    parts_.push_back(parts[i]);
  }
  return opened_.empty() ? root_ : opened_.back();
}

void new_files::write(std::string_view key, std::string_view value) {
  const int folder = folder_for(key);
  const std::string name(key.substr(key.rfind('/') == std::string_view::npos ? 0 : key.rfind('/') + 1));
  const std::string path = path_of(key);
  const std::string made = overwrite_ ? std::string(unfinished_name) : name;
  if (overwrite_ && ::unlinkat(folder, made.c_str(), 0) != 0 && errno != ENOENT) fail_on_file(path, "replacing it");
  const descriptor file(::openat(folder, made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (file.number() < 0) fail_on_file(path, "making it");
  try {
    write_bytes(file.number(), value, path);
    if (overwrite_ && ::renameat(folder, made.c_str(), folder, name.c_str()) != 0) fail_on_file(path, "replacing it");
  } catch (...) {
    ::unlinkat(folder, made.c_str(), 0);  // no file is there in part
    throw;
  }
}

}  // namespace icecore::cli
