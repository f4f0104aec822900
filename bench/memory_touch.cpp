#include "memory_touch.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace icecore::bench {

void touch_memory(const std::filesystem::path& folder, std::uint64_t bytes) noexcept {
  struct statfs there {};
  if (statfs(folder.c_str(), &there) != 0 || there.f_type != TMPFS_MAGIC) return;
  const int file = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return;
  static const std::array<char, 1 << 20> zeros{};
  const std::uint64_t most = there.f_bavail * static_cast<std::uint64_t>(there.f_bsize) / 2;
  for (std::uint64_t written = 0; written < std::min(bytes, most);) {
    const ssize_t now = ::write(file, zeros.data(), zeros.size());
    if (now <= 0) break;
    written += static_cast<std::uint64_t>(now);
  }
  ::close(file);
}

}  // namespace icecore::bench
