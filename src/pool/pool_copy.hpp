// A pool file that is made as a copy of another one: first its bytes, all but the root pages, which are then checked as
// at every opening that reads all records; last its root.
//
// Threads: one; copy_pages() copies on all cores.
// Crash: leaves a file without a root, which no store opens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "pool/file/file.hpp"
#include "pool/file/range_copier.hpp"
#include "pool/format.hpp"

namespace icecore {

class pool_copy {
 public:
  /// `to` is newly created, and gets the size of `from`. Locks `from` for reading while this object lives.
  pool_copy(const std::filesystem::path& from, pool_file& to);
  /// Undoes the creation of the file unless it is finished.
  ~pool_copy();
  pool_copy(const pool_copy&) = delete;
  pool_copy& operator=(const pool_copy&) = delete;

  [[nodiscard]] const pool_file& from() const noexcept { return from_; }

  /// The root pages of the source, with which the copy is opened; zeros where the source ends before them.
  [[nodiscard]] const std::byte* root_pages() const noexcept { return root_pages_.data(); }
  /// Copies everything behind the root pages.
  void copy_pages();
  /// Call when everything is copied: makes the file and its name durable.
  void finish();

 private:
  pool_file from_;
  pool_file* to_;
  std::uint64_t size_;
  std::array<std::byte, 2 * format::page_size> root_pages_{};
  range_copier copier_;
  bool finished_ = false;
};

}  // namespace icecore
