// CRC32C (Castagnoli), by the CPU's instruction if it has one, else by tables. Both give the same numbers.
//
// Threads: all functions are pure. Cost: with the instruction about 3 cycles for 8 bytes, or one cycle for data of 3
// KiB or more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace icecore {

/// Continues the checksum `crc` over `size` bytes.
[[nodiscard]] std::uint32_t crc32c(std::uint32_t crc, const void* data, std::size_t size) noexcept;

namespace detail {
[[gnu::visibility("hidden")]] extern const bool has_crc32c_instruction;
[[nodiscard]] std::uint32_t crc32c_of_word(std::uint32_t crc, std::uint64_t word) noexcept;
}  // namespace detail

/// Continues the checksum `crc` over the 8 bytes of `word`, little-endian.
[[nodiscard, gnu::always_inline]] inline std::uint32_t crc32c(std::uint32_t crc, std::uint64_t word) noexcept {
#if defined(__x86_64__)
  if (detail::has_crc32c_instruction) [[likely]] {
    // Assembly: an intrinsic would need each caller compiled for a newer processor.
    std::uint64_t sum = crc;
    asm("crc32q %1, %0" : "+r"(sum) : "rm"(word));
    return static_cast<std::uint32_t>(sum);
  }
#endif
  return detail::crc32c_of_word(crc, word);
}

/// Continues the checksum `crc` over two words and `size` bytes behind them, a multiple of 8.
[[nodiscard, gnu::always_inline]] inline std::uint32_t crc32c(std::uint32_t crc, std::uint64_t first,
                                                              std::uint64_t second, const std::byte* data,
                                                              std::size_t size) noexcept {
  crc = crc32c(crc32c(crc, first), second);
  constexpr std::size_t bytes_max = 64;  // of these a call takes longer than the instructions
  if (size > bytes_max) return crc32c(crc, data, size);
  for (const std::byte* const end = data + size; data != end; data += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, data, sizeof word);
    crc = crc32c(crc, word);
  }
  return crc;
}

/// The checksum from which `size` bytes lead to `after`, given that they lead from 0 to `after_zero`: reverses crc32c()
/// ("Reversing CRC", Stigge et al., 2006).
[[nodiscard]] std::uint32_t crc32c_before(std::uint32_t after, std::uint32_t after_zero, std::size_t size) noexcept;

/// The table-driven version, for machines without the instruction; public so that tests can compare the two.
[[nodiscard]] std::uint32_t crc32c_portable(std::uint32_t crc, const void* data, std::size_t size) noexcept;

/// Mixes a word so that each input bit changes about half of the output bits (splitmix64's finalizer).
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9U;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace icecore
