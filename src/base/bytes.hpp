// Helpers for raw bytes of memory.
//
// Threads: all functions are pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace icecore {

/// The size of a huge page (x86-64, and aarch64 with pages of 4 KiB).
inline constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20;

/// Whether `size` bytes are all zero. Cost: comparing the range with itself, some 10 GB/s.
[[nodiscard]] inline bool all_zero(const std::byte* from, std::size_t size) noexcept {
  return size == 0 || (from[0] == std::byte{0} && std::memcmp(from, from + 1, size - 1) == 0);
}

/// The eight bytes from `p` on; `p` may have any alignment.
[[nodiscard]] inline std::uint64_t word_at(const std::byte* p) noexcept {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

/// How many of `size` bytes are zero before the first one that is not. Cost: as all_zero().
[[nodiscard]] inline std::size_t leading_zeros(const std::byte* from, std::size_t size) noexcept {
  constexpr std::size_t chunk = 4096;
  std::size_t zeros = 0;
  while (zeros < size && all_zero(from + zeros, std::min(chunk, size - zeros))) zeros += std::min(chunk, size - zeros);
  while (zeros < size && from[zeros] == std::byte{0}) ++zeros;
  return zeros;
}

}  // namespace icecore
