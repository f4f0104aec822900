#include "support/memory_file.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace icecore::testing {
namespace {

constexpr std::size_t page_bytes = 4096;

void require(bool done, const char* what) {
  if (!done) throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

memory_file::memory_file(const char* name)
    : descriptor_(memfd_create(name, MFD_CLOEXEC)), path_("/proc/self/fd/" + std::to_string(descriptor_)) {
  require(descriptor_ >= 0, "memfd_create");
}

memory_file::~memory_file() { close(descriptor_); }

void memory_file::write(std::span<const std::byte> content) const {
  require(ftruncate(descriptor_, 0) == 0 && ftruncate(descriptor_, static_cast<off_t>(content.size())) == 0,
          "ftruncate of a memory file");
  require(lseek(descriptor_, 0, SEEK_SET) == 0, "lseek in a memory file");
  for (std::size_t at = 0; at < content.size(); at += page_bytes) {
    const auto page = content.subspan(at, std::min(page_bytes, content.size() - at));
    if (std::ranges::all_of(page, [](std::byte b) { return b == std::byte{0}; })) continue;
    require(pwrite(descriptor_, page.data(), page.size(), static_cast<off_t>(at)) == std::ssize(page),
            "pwrite to a memory file");
  }
}

std::string memory_file::read() const {
  struct stat s {};
  require(fstat(descriptor_, &s) == 0, "fstat of a memory file");
  std::string content(static_cast<std::size_t>(s.st_size), '\0');
  require(pread(descriptor_, content.data(), content.size(), 0) == std::ssize(content), "pread of a memory file");
  return content;
}

}  // namespace icecore::testing
