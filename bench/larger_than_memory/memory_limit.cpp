#include "memory_limit.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <stdexcept>
#include <system_error>

namespace icecore::bench {
namespace {

namespace fs = std::filesystem;

/// The path of this process's group in the hierarchy that has the controller; "" names that of version 2.
std::optional<std::string> own_group(const std::string& controller) {
  std::ifstream in("/proc/self/cgroup");  // number:controller,controller:path
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    if (line.substr(first + 1, second - first - 1) == controller) return line.substr(second + 1);
  }
  return std::nullopt;
}

bool write_to(const fs::path& file, const std::string& what) {
  std::ofstream out(file);
  out << what << std::flush;
  return static_cast<bool>(out);
}

}  // namespace

memory_limit::memory_limit(std::uint64_t bytes) {
  const std::string name = fmt::format("icecore-larger-than-memory-{}", getpid());
  std::string limit = "memory.limit_in_bytes";
  if (const auto own = own_group("memory")) {
    kind_ = "control group version 1";
    folder_ = fs::path("/sys/fs/cgroup/memory" + *own) / name;
  } else if (const auto unified = own_group("")) {
    kind_ = "control group version 2";
    folder_ = fs::path("/sys/fs/cgroup" + *unified).parent_path() / name;
    limit = "memory.max";
  } else {
    throw std::runtime_error("this kernel has no control groups: no memory can be limited");
  }
  std::error_code refused;
  fs::create_directory(folder_, refused);
  if (refused || !write_to(folder_ / limit, std::to_string(bytes))) {
    std::error_code ignored;
    fs::remove(folder_, ignored);
    throw std::runtime_error(fmt::format(
        "{}: cannot limit memory there ({}); run this as root, or in a group whose parent is yours and has the memory "
        "controller: systemd-run --user --scope -p Delegate=yes PROGRAM",
        folder_.native(), refused ? refused.message() : limit + " cannot be written"));
  }
  write_to(folder_ / "memory.swap.max", "0");  // where there is one
}

memory_limit::~memory_limit() {
  std::error_code ignored;
  fs::remove(folder_, ignored);
}

void memory_limit::enter() const {
  if (!write_to(folder_ / "cgroup.procs", std::to_string(getpid()))) {
    throw std::runtime_error(fmt::format("{}: a process cannot enter it", folder_.native()));
  }
}

void forget_cached(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const int file = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) throw std::system_error(errno, std::generic_category(), entry.path().native());
    const bool synced = fsync(file) == 0;
    const int refused = synced ? posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) : errno;
    close(file);
    if (refused != 0) throw std::system_error(refused, std::generic_category(), entry.path().native());
  }
}

}  // namespace icecore::bench
