// Makes system calls and calls of libpmem2 fail, or answer differently, while a test needs it.
//
//   const failing_call broken("fstat", EIO);          // until the end of its scope every fstat fails
//   const failing_call interrupted("fstat", EINTR, {.times = 1});
//
// failing_calls.cpp replaces functions of the C library and of libpmem2 in the program into which it is linked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace icecore::testing {

struct which_calls {
  int after = 0;              ///< this many calls succeed first
  int times = 1'000'000'000;  ///< then this many calls fail
};

/// One object at a time; not for use by two threads at once.
class failing_call {
 public:
  /// `name`: open, fstat, fstatvfs, statx, fcntl, pread, fsync, fdatasync, posix_fallocate, fallocate, getrandom,
  /// pthread_create, or pmem2_map_new of libpmem2, whose errors are negative numbers.
  failing_call(std::string_view name, int error, which_calls which = {});
  ~failing_call();
  failing_call(const failing_call&) = delete;
  failing_call& operator=(const failing_call&) = delete;
};

/// While it lives, fstatfs reports this magic number for every file system.
class fake_filesystem {
 public:
  explicit fake_filesystem(unsigned long magic);
  ~fake_filesystem();
  fake_filesystem(const fake_filesystem&) = delete;
  fake_filesystem& operator=(const fake_filesystem&) = delete;
};

/// While it lives, statx reports that every file is mapped directly (DAX).
class fake_dax {
 public:
  fake_dax();
  ~fake_dax();
  fake_dax(const fake_dax&) = delete;
  fake_dax& operator=(const fake_dax&) = delete;
};

/// While it lives, the kernel does not report the boot, and `memory` replaces /dev/shm, where icecore keeps its own
/// boot number.
class hidden_boot {
 public:
  explicit hidden_boot(const std::filesystem::path& memory);
  ~hidden_boot();
  hidden_boot(const hidden_boot&) = delete;
  hidden_boot& operator=(const hidden_boot&) = delete;
};

}  // namespace icecore::testing
