// Copies ranges of one file to the same places of another. The kernel copies, so that the bytes never enter the
// process; between file systems where it cannot, a buffer is used. Afterwards each file has its own blocks. If a file
// system let the files share blocks, the first store to a page of either would need a new block, and be a SIGBUS on a
// full device. (btrfs cannot guarantee any file blocks of its own.)
//
// Threads: all functions, on ranges that do not overlap. Errors: those of reading and writing, each naming its file;
// errc::truncated if the source file ends within the range.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>

namespace icecore {

class range_copier {
 public:
  struct file {
    int descriptor;
    const std::filesystem::path* path;  ///< for error messages
  };
  range_copier(file from, file to) noexcept : from_(from), to_(to) {}

  void copy(std::uint64_t offset, std::uint64_t size);

 private:
  void unshare(std::uint64_t offset, std::uint64_t size) const;

  file from_;
  file to_;
  std::atomic<bool> kernel_copies_{true};
};

/// Waits until the device has what begin_writing() began. Throws errc::io, no_space if it has not taken it.
void await_writing(const range_copier::file& of, std::uint64_t offset, std::uint64_t size);
/// Lets the device begin to write a range: a hint that shortens the wait of a later fsync.
void begin_writing(const range_copier::file& of, std::uint64_t offset, std::uint64_t size) noexcept;

/// Writes all bytes at `offset`.
void write_at(const range_copier::file& to, const void* bytes, std::uint64_t size, std::uint64_t offset);

}  // namespace icecore
