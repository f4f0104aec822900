// System calls and calls of libpmem2 that fail, or answer otherwise, while a test wants them to.
//
//   const failing_call broken("fstat", EIO);          // until the end of its scope every fstat fails
//   const failing_call interrupted("fstat", EINTR, {.times = 1});
//
// failing_calls.cpp takes the place of the C library's and libpmem2's functions in the program it is linked into.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace icecore::testing {

struct which_calls {
  int after = 0;              ///< so many succeed first
  int times = 1'000'000'000;  ///< so many fail then
};

/// One at a time; not for two threads at once.
class failing_call {
 public:
  /// open, fstat, fstatvfs, statx, fcntl, pread, fsync, fdatasync, posix_fallocate, getrandom, or of libpmem2
  /// pmem2_map_new, whose errors are negative numbers.
  failing_call(std::string_view name, int error, which_calls which = {});
  ~failing_call();
  failing_call(const failing_call&) = delete;
  failing_call& operator=(const failing_call&) = delete;
};

/// While it lives, fstatfs tells this magic number of every file system.
class told_filesystem {
 public:
  explicit told_filesystem(unsigned long magic);
  ~told_filesystem();
  told_filesystem(const told_filesystem&) = delete;
  told_filesystem& operator=(const told_filesystem&) = delete;
};

/// While it lives, statx tells that every file is mapped directly (DAX).
class told_dax {
 public:
  told_dax();
  ~told_dax();
  told_dax(const told_dax&) = delete;
  told_dax& operator=(const told_dax&) = delete;
};

/// While it lives, the kernel does not tell which boot this is, and `memory` stands for /dev/shm where a number of our
/// own is kept.
class hidden_boot {
 public:
  explicit hidden_boot(const std::filesystem::path& memory);
  ~hidden_boot();
  hidden_boot(const hidden_boot&) = delete;
  hidden_boot& operator=(const hidden_boot&) = delete;
};

}  // namespace icecore::testing
