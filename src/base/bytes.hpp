// Bytes of memory looked at as a whole.
//
// Threads: all functions are pure.
#pragma once

#include <cstddef>
#include <cstring>

namespace icecore {

/// Whether `size` bytes are all zero. Cost: that of comparing the range with itself, some 10 GB/s.
[[nodiscard]] inline bool all_zero(const std::byte* from, std::size_t size) noexcept {
  return size == 0 || (from[0] == std::byte{0} && std::memcmp(from, from + 1, size - 1) == 0);
}

}  // namespace icecore
