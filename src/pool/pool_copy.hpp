// A pool file that is made as a copy of another one, range by range, in the order in which recovery reads it. So each
// range is checked in the copy itself while the caches still hold it.
//
// Threads: several may call bring(), on ranges that do not overlap. What was not copied reads as zeros.
// Crash: leaves a file without a root (root_pages::invalidate), which no store opens.
#pragma once

#include <cstdint>
#include <filesystem>

#include "pool/file/file.hpp"
#include "pool/file/range_copier.hpp"

namespace icecore {

class pool_copy {
 public:
  /// `to` is newly created. Locks `from` for reading while this object lives.
  pool_copy(const std::filesystem::path& from, pool_file& to);
  /// Undoes the creation of the file unless it is finished.
  ~pool_copy();
  pool_copy(const pool_copy&) = delete;
  pool_copy& operator=(const pool_copy&) = delete;

  [[nodiscard]] const pool_file& from() const noexcept { return from_; }

  /// Copies the bytes from `offset` to `filled`, as far as the source has them, and lets the device begin to write
  /// them. From `filled` to `end` the copy has zeros, whatever the source has there.
  void bring(std::uint64_t offset, std::uint64_t filled, std::uint64_t end);
  void bring(std::uint64_t offset, std::uint64_t end) { bring(offset, end, end); }
  /// Call when everything is copied: makes the file and its name durable.
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
