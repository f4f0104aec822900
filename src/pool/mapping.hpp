// The pool file in memory: one range of addresses reserved once, into which growth is mapped, so that nothing moves.
//
// Stands on libpmem2, which maps the file's beginning, and tells what the mapping can do (pages, cache lines, or eADR)
// and how to flush it.
//
// Threads: extend() by one thread at a time; what is mapped stays mapped until destruction.
#pragma once

#include <libpmem2.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace icecore {

class mapping {
 public:
  /// Reserves addresses for `capacity` bytes of the file. A private mapping reads the file and keeps stores to itself.
  mapping(int descriptor, std::string path, std::uint64_t capacity, bool shared);
  ~mapping();
  mapping(const mapping&) = delete;
  mapping& operator=(const mapping&) = delete;

  /// Throws errc::no_space if it could not be mapped so far.
  void require(std::uint64_t size) const;
  /// Maps the file up to `size`, a multiple of the page size that the file already has; of a file that grows, all that
  /// it may ever have.
  void extend(std::uint64_t size);
  /// Maps all the file may ever have: from now on growth by any process is mapped here at once. What lies behind the
  /// file's end must not be touched. Precondition: something is mapped, and it is shared.
  void map_capacity();

  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }
  /// Precondition: something is mapped.
  [[nodiscard]] pmem2_granularity granularity() const noexcept;
  [[nodiscard]] pmem2_flush_fn flush_function() const noexcept { return pmem2_get_flush_fn(maps_.front()); }
  [[nodiscard]] pmem2_drain_fn drain_function() const noexcept { return pmem2_get_drain_fn(maps_.front()); }

 private:
  void check(int result, const char* call) const;

  std::string path_;
  std::uint64_t capacity_;
  bool shared_;
  std::uint64_t size_ = 0;
  bool maps_capacity_ = false;
  int descriptor_;
  std::byte* base_ = nullptr;
  pmem2_source* source_ = nullptr;
  pmem2_vm_reservation* reservation_ = nullptr;
  std::vector<pmem2_map*> maps_;
};

}  // namespace icecore
