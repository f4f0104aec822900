// Makes a pool file as a copy of another one. All bytes but the root pages are copied first. Recovery then checks the
// copy, and the pool publishes its root last.
//
// Threads: one; copy_pages() starts its own.
// Crash: leaves a file without a root, which no store opens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "pool/file/file.hpp"
#include "pool/file/range_copier.hpp"
#include "pool/format.hpp"

namespace icecore {

class pool_copy {
 public:
  /// `to` is newly created, and gets the size of `from`. Locks `from` for reading while this object lives. Copies
  /// nothing yet, so that the caller can check the roots first. Throws errc::io if the root pages cannot be read.
  pool_copy(const std::filesystem::path& from, pool_file& to);
  /// Undoes the creation of the file unless it is finished.
  ~pool_copy();
  pool_copy(const pool_copy&) = delete;
  pool_copy& operator=(const pool_copy&) = delete;

  [[nodiscard]] const pool_file& from() const noexcept { return from_; }

  /// The root pages of the source, with which the copy is opened; zeros where the source ends before them.
  [[nodiscard]] const std::byte* root_pages() const noexcept { return root_pages_.data(); }
  /// Copies everything behind the root pages, up to `end`, by `threads` threads. Calls `copied` in the caller's thread
  /// after each piece that this thread copied, with the number of bytes that all threads have copied so far.
  void copy_pages(std::uint64_t end, unsigned threads, const std::function<void(std::uint64_t)>& copied);
  /// Call when everything is copied: makes the file and its name durable.
  void finish();

 private:
  void read_root_pages();

  pool_file from_;
  pool_file* to_;
  std::uint64_t size_;
  alignas(format::root) std::array<std::byte, 2 * format::page_size> root_pages_{};
  range_copier copier_;
  bool finished_ = false;
};

}  // namespace icecore
