// A pool's file that comes to be as the copy of another one, range by range, in the order in which recovery reads it:
// so each range is checked while the caches still hold it, in the copy itself.
//
// Threads: bring() by several, on ranges apart from each other. What was not brought reads as zeros.
// Crash: leaves a file without a root (root_pages::hide), which no store opens.
#pragma once

#include <cstdint>
#include <filesystem>

#include "pool/file/file.hpp"
#include "pool/file/range_copier.hpp"

namespace icecore {

class pool_copy {
 public:
  /// `to` has just been made. Locks `from` for reading for as long as this lives.
  pool_copy(const std::filesystem::path& from, pool_file& to);
  /// Undoes the creation of the file, unless it is finished.
  ~pool_copy();
  pool_copy(const pool_copy&) = delete;
  pool_copy& operator=(const pool_copy&) = delete;

  [[nodiscard]] const pool_file& from() const noexcept { return from_; }

  /// Copies what lies from `offset` to `filled`, as far as the file has it, and lets the device begin to write it. From
  /// there to `end` the copy has zeros, whatever is in the other file.
  void bring(std::uint64_t offset, std::uint64_t filled, std::uint64_t end);
  void bring(std::uint64_t offset, std::uint64_t end) { bring(offset, end, end); }
  /// All is brought: makes the file and its name durable.
  void finish();

 private:
  pool_file from_;
  pool_file* to_;
  std::uint64_t size_;
  bool in_memory_;
  range_copier copier_;
  bool finished_ = false;
};

}  // namespace icecore
