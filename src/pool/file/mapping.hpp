// The pool file in memory: one range of addresses, reserved once. Growth is mapped into it, so nothing moves.
//
// libpmem2 reports what the medium can do (pages, cache lines, or eADR) and how to flush it. The mapping itself is made
// here, because each reservation of libpmem2 (1.12) never gives back up to 1 GiB of addresses.
//
// Threads: one thread at a time calls extend() or trim(). What is mapped stays mapped until destruction.
#pragma once

#include <libpmem2.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace icecore {

class mapping {
 public:
  enum class kind : std::uint8_t {
    shared,    ///< what is stored reaches the file
    own,       ///< what is stored stays in this process
    observed,  ///< nothing can be stored; what other processes store is seen
  };
  /// Reserves addresses for `capacity` bytes of the file. While too few are available, it tries half as many. Throws
  /// errc::io if not even 64 MiB can be reserved.
  mapping(int descriptor, std::string path, std::uint64_t capacity, kind how);
  ~mapping();
  mapping(const mapping&) = delete;
  mapping& operator=(const mapping&) = delete;

  /// Throws errc::no_space if `size` bytes cannot be mapped.
  void require(std::uint64_t size) const;
  /// Maps the file up to `size`, a multiple of the page size that the file already has. The first call maps the whole
  /// capacity unless the mapping is this process's own, so that growth by any process is visible here at once.
  /// Addresses behind the file's end must not be touched.
  void extend(std::uint64_t size);
  /// Gives back the addresses behind `size` bytes: nothing can be mapped there any more.
  void trim(std::uint64_t size) noexcept;

  [[nodiscard]] kind how() const noexcept { return kind_; }
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }
  /// Precondition of these three: something is mapped, and can be stored to.
  [[nodiscard]] pmem2_granularity granularity() const noexcept { return granularity_; }
  [[nodiscard]] pmem2_flush_fn flush_function() const noexcept { return flush_; }
  [[nodiscard]] pmem2_drain_fn drain_function() const noexcept { return drain_; }

 private:
  bool reserve() noexcept;
  void ask_medium();
  void check(int result, const char* call) const;

  std::string path_;
  std::uint64_t capacity_;
  kind kind_;
  std::uint64_t size_ = 0;
  int descriptor_;
  std::byte* reserved_ = nullptr;
  std::uint64_t reserved_bytes_ = 0;
  std::byte* base_ = nullptr;
  pmem2_granularity granularity_{};
  pmem2_flush_fn flush_ = nullptr;
  pmem2_drain_fn drain_ = nullptr;
};

}  // namespace icecore
