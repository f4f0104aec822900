// Copies ranges of one file to the same places of another: by the kernel, so that the bytes never enter the process, or
// through a buffer between file systems for which it does not. Each file has blocks of its own afterwards: where a file
// system shared them instead, the first store to a page of either would need a new one, and be a SIGBUS on a full
// device. (btrfs cannot promise that to any file.)
//
// Threads: all functions, on ranges apart from each other. Errors: those of reading and writing, each naming its file;
// errc::truncated if the file that is read ends within the range.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>

namespace icecore {

class range_copier {
 public:
  struct file {
    int descriptor;
    const std::filesystem::path* path;  ///< for errors
  };
  range_copier(file from, file to) noexcept : from_(from), to_(to) {}

  void copy(std::uint64_t offset, std::uint64_t size);

 private:
  void unshare(std::uint64_t offset, std::uint64_t size) const;

  file from_;
  file to_;
  std::atomic<bool> kernel_copies_{true};
};

/// Lets the device begin to write a range: a hint, so that a later fsync has less to wait for.
void begin_writing(const range_copier::file& of, std::uint64_t offset, std::uint64_t size) noexcept;

/// Writes all of the bytes at `offset`.
void write_at(const range_copier::file& to, const void* bytes, std::uint64_t size, std::uint64_t offset);

}  // namespace icecore
