#include "pool/file/range_copier.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/raise.hpp"

namespace icecore {

void write_at(const range_copier::file& to, const void* bytes, std::uint64_t size, std::uint64_t offset) {
  const auto* from = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t count = ::pwrite(to.descriptor, from, size, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) raise_errno(errno, "pwrite", to.path->native());
    from += count;
    offset += static_cast<std::uint64_t>(count);
    size -= static_cast<std::uint64_t>(count);
  }
}

void begin_writing(const range_copier::file& of, std::uint64_t offset, std::uint64_t size) noexcept {
  static_cast<void>(
      sync_file_range(of.descriptor, static_cast<off_t>(offset), static_cast<off_t>(size), SYNC_FILE_RANGE_WRITE));
}

void await_writing(const range_copier::file& of, std::uint64_t offset, std::uint64_t size) {
  const int refused =
      sync_file_range(of.descriptor, static_cast<off_t>(offset), static_cast<off_t>(size), SYNC_FILE_RANGE_WAIT_BEFORE);
  // Who asks is told of a failed write once: the sync at the end would not tell it again.
  if (refused != 0 && (errno == EIO || errno == ENOSPC || errno == EDQUOT)) {
    raise_errno(errno, "writing", of.path->native());
  }
}

void range_copier::copy(std::uint64_t offset, std::uint64_t size) {
  const std::uint64_t begin = offset;
  // relaxed: a hint that guards no data
  while (size > 0 && kernel_copies_.load(std::memory_order_relaxed)) {
    auto source = static_cast<off_t>(offset);
    off_t target = source;
    const ssize_t count = ::copy_file_range(from_.descriptor, &source, to_.descriptor, &target, size, 0);
    if (count < 0 && errno == EINTR) continue;
    // it cannot copy between some file systems (EXDEV, ENOTSUP, EINVAL); any other cause shows when reading or writing
    if (count <= 0) {
      kernel_copies_.store(false, std::memory_order_relaxed);
      break;
    }
    offset += static_cast<std::uint64_t>(count);
    size -= static_cast<std::uint64_t>(count);
  }
  if (offset > begin) unshare(begin, offset - begin);
  if (size == 0) return;
  constexpr std::uint64_t buffer_bytes = 1 << 18;  // stays in a core's cache between the two calls
  const auto buffer = std::make_unique_for_overwrite<char[]>(std::min(size, buffer_bytes));
  while (size > 0) {
    const ssize_t count =
        ::pread(from_.descriptor, buffer.get(), std::min(size, buffer_bytes), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) raise_errno(errno, "pread", from_.path->native());
    if (count == 0) {
      raise(errc::truncated, "{}: ends at byte {}, but the store has records behind that", from_.path->native(),
            offset);
    }
    write_at(to_, buffer.get(), static_cast<std::uint64_t>(count), offset);
    offset += static_cast<std::uint64_t>(count);
    size -= static_cast<std::uint64_t>(count);
  }
}

void range_copier::unshare(std::uint64_t offset, std::uint64_t size) const {
  const bool refused =
      ::fallocate(to_.descriptor, FALLOC_FL_UNSHARE_RANGE, static_cast<off_t>(offset), static_cast<off_t>(size)) != 0;
  // most file systems share no blocks and do not support the call
  if (refused && (errno == ENOSPC || errno == EDQUOT || errno == EIO)) {
    raise_errno(errno, "allocating space", to_.path->native());
  }
}

}  // namespace icecore
