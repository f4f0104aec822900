#include "run/lifecycle/data_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <thread>

#include "icecore/error.hpp"
#include "run/configuration/units.hpp"

namespace icecore::server {

namespace {

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view call) {
  throw error(errc::io, fmt::format("{}: {}: {}", path.string(), call, std::strerror(errno)));
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code failed;
  if (!folder.parent_path().empty()) std::filesystem::create_directories(folder.parent_path(), failed);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) fail(folder, "the folder cannot be made");
}

/// The process that the file names, if it names one.
std::optional<pid_t> named_process(int descriptor) {
  char text[32];
  const ssize_t got = ::pread(descriptor, text, sizeof text, 0);
  if (got <= 0) return std::nullopt;
  const std::string_view all(text, static_cast<std::size_t>(got));
  const auto number = parse_number(all.substr(0, all.find('\n')));
  if (!number || *number == 0 || *number > std::uint64_t{1} << 30U) return std::nullopt;
  return static_cast<pid_t>(*number);
}

bool is_alive(pid_t process) { return ::kill(process, 0) == 0 || errno == EPERM; }

/// Between another process's lock and its number there is an instant in which the file still names an earlier one.
[[noreturn]] void refuse(const std::filesystem::path& folder, int descriptor) {
  constexpr int tries = 20;
  constexpr std::chrono::milliseconds pause{50};
  std::optional<pid_t> other;
  for (int i = 0; i < tries; ++i) {
    other = named_process(descriptor);
    if (other && is_alive(*other)) break;
    std::this_thread::sleep_for(pause);
  }
  ::close(descriptor);
  std::string who = "another icecore-server";
  if (other) {
    who += fmt::format(", process {}{}", *other,
                       is_alive(*other) ? "," : " (of another container or machine, since it is not seen here),");
  }
  throw error(errc::locked,
              fmt::format("{}: {} uses this folder; stop it, or give --data another folder", folder.string(), who));
}

}  // namespace

data_lock::data_lock(const std::filesystem::path& folder) {
  make_folder(folder);
  const std::filesystem::path file = folder / "server.lock";
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) fail(file, "it cannot be opened");
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(descriptor, F_OFD_SETLK, &whole) != 0) {
    if (errno == EAGAIN || errno == EACCES) refuse(folder, descriptor);
    const int reason = errno;
    ::close(descriptor);
    errno = reason;
    fail(file, "it cannot be locked");
  }
  const std::string number = std::to_string(::getpid()) + '\n';
  if (::ftruncate(descriptor, 0) != 0 ||
      ::pwrite(descriptor, number.data(), number.size(), 0) != static_cast<ssize_t>(number.size())) {
    const int reason = errno;
    ::close(descriptor);
    errno = reason;
    fail(file, "this process's number cannot be written");
  }
  descriptor_ = descriptor;
}

data_lock::~data_lock() { ::close(descriptor_); }

}  // namespace icecore::server
