#include "memory_touch.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace icecore::bench {

namespace {

/// Memory of huge pages, all of which were written to.
class huge_memory {
 public:
  explicit huge_memory(std::uint64_t bytes) noexcept : bytes_(bytes) {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return;
    at_ = static_cast<volatile char*>(at);
    (void)madvise(at, bytes, MADV_HUGEPAGE);
    constexpr std::uint64_t page = 4096;
    for (std::uint64_t i = 0; i < bytes; i += page) at_[i] = 1;
  }
  ~huge_memory() {
    if (at_ != nullptr) munmap(const_cast<char*>(at_), bytes_);
  }
  huge_memory(const huge_memory&) = delete;
  huge_memory& operator=(const huge_memory&) = delete;

 private:
  volatile char* at_ = nullptr;
  std::uint64_t bytes_;
};

}  // namespace

void touch_memory(const std::filesystem::path& folder, std::uint64_t bytes) noexcept {
  struct statfs there {};
  if (statfs(folder.c_str(), &there) != 0 || there.f_type != TMPFS_MAGIC) return;
  const int file = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return;
  static const std::array<char, 1 << 20> zeros{};
  bytes = std::min(bytes, there.f_bavail * static_cast<std::uint64_t>(there.f_bsize) / 4);
  const huge_memory also(bytes);  // small pages that another store gave back make up no huge one
  for (std::uint64_t written = 0; written < bytes;) {
    const ssize_t now = ::write(file, zeros.data(), zeros.size());
    if (now <= 0) break;
    written += static_cast<std::uint64_t>(now);
  }
  ::close(file);
}

}  // namespace icecore::bench
