#include "base/checksum.hpp"

#include <array>
#include <bit>
#include <cstring>

#if defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

static_assert(std::endian::native == std::endian::little, "icecore's media format is little-endian");

namespace icecore {

#if defined(__x86_64__)
const bool detail::has_crc32c_instruction = __builtin_cpu_supports("sse4.2") != 0;
#elif defined(__aarch64__)
const bool detail::has_crc32c_instruction = (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#else
const bool detail::has_crc32c_instruction = false;
#endif

namespace {

constexpr std::uint32_t polynomial = 0x82f63b78U;  // Castagnoli, bit-reversed

constexpr auto tables = [] {
  std::array<std::array<std::uint32_t, 256>, 8> t{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) != 0 ? polynomial : 0);
    t[0][i] = c;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t i = 0; i < 256; ++i) t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xff];
  }
  return t;
}();

std::uint32_t word_portable(std::uint32_t crc, std::uint64_t word) noexcept {
  word ^= crc;
  std::uint32_t out = 0;
  for (std::size_t k = 0; k < 8; ++k) out ^= tables[7 - k][(word >> (8 * k)) & 0xff];
  return out;
}

std::uint64_t load_word(const unsigned char* p) noexcept {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

/// The checksum before a zero bit that led to this one.
constexpr std::uint32_t before_bit(std::uint32_t crc) noexcept {
  return (crc >> 31) != 0 ? ((crc ^ polynomial) << 1) | 1 : crc << 1;
}

/// The same for eight zero bytes, as a table for each value of each byte of the checksum: the operation is linear.
constexpr auto before_word = [] {
  std::array<std::array<std::uint32_t, 256>, 4> t{};
  for (std::size_t bit = 0; bit < 32; ++bit) {
    std::uint32_t c = std::uint32_t{1} << bit;
    for (int i = 0; i < 64; ++i) c = before_bit(c);
    for (std::size_t i = 0; i < 256; ++i) {
      if ((i >> (bit % 8) & 1) != 0) t[bit / 8][i] ^= c;
    }
  }
  return t;
}();

// Not every processor has the instruction. So the functions that use it are compiled for those that do, and chosen at
// run time.
#if defined(__x86_64__)
#define ICECORE_HAS_CRC32C_INSTRUCTION 1
#define ICECORE_WITH_CRC32C __attribute__((target("sse4.2")))
using checksum_register = std::uint64_t;

ICECORE_WITH_CRC32C inline std::uint64_t add_word(std::uint64_t crc, std::uint64_t word) noexcept {
  return __builtin_ia32_crc32di(crc, word);
}
ICECORE_WITH_CRC32C inline std::uint32_t add_byte(std::uint32_t crc, unsigned char byte) noexcept {
  return __builtin_ia32_crc32qi(crc, byte);
}
#elif defined(__aarch64__)
#define ICECORE_HAS_CRC32C_INSTRUCTION 1
#define ICECORE_WITH_CRC32C __attribute__((target("+crc")))
using checksum_register = std::uint32_t;

ICECORE_WITH_CRC32C inline std::uint32_t add_word(std::uint32_t crc, std::uint64_t word) noexcept {
  return __crc32cd(crc, word);
}
ICECORE_WITH_CRC32C inline std::uint32_t add_byte(std::uint32_t crc, unsigned char byte) noexcept {
  return __crc32cb(crc, byte);
}
#endif

#if defined(ICECORE_HAS_CRC32C_INSTRUCTION)
/// The instruction has a latency of three cycles, but one can start in each cycle. So long data is read at three places
/// at once, this many bytes apart.
constexpr std::size_t stride = 1024;

/// What `stride` zero bytes make of a checksum, as a table for each value of each of its bytes: the operation is
/// linear.
constexpr auto shifts = [] {
  std::array<std::array<std::uint32_t, 256>, 4> t{};
  for (std::size_t bit = 0; bit < 32; ++bit) {
    std::uint32_t c = std::uint32_t{1} << bit;
    for (std::size_t i = 0; i < stride; ++i) c = (c >> 8) ^ tables[0][c & 0xff];
    for (std::size_t i = 0; i < 256; ++i) {
      if ((i >> (bit % 8) & 1) != 0) t[bit / 8][i] ^= c;
    }
  }
  return t;
}();

std::uint32_t shifted(std::uint64_t crc) noexcept {
  return shifts[0][crc & 0xff] ^ shifts[1][(crc >> 8) & 0xff] ^ shifts[2][(crc >> 16) & 0xff] ^
         shifts[3][(crc >> 24) & 0xff];
}

ICECORE_WITH_CRC32C std::uint32_t hardware(std::uint32_t crc, const void* data, std::size_t size) noexcept {
  const auto* p = static_cast<const unsigned char*>(data);
  checksum_register c = crc;
  for (; size >= 3 * stride; p += 3 * stride, size -= 3 * stride) {
    checksum_register second = 0;
    checksum_register third = 0;
    for (std::size_t i = 0; i < stride; i += 8) {
      c = add_word(c, load_word(p + i));
      second = add_word(second, load_word(p + stride + i));
      third = add_word(third, load_word(p + 2 * stride + i));
    }
    c = shifted(shifted(c) ^ second) ^ third;
  }
  for (; size >= 8; p += 8, size -= 8) c = add_word(c, load_word(p));
  auto c32 = static_cast<std::uint32_t>(c);
  for (; size > 0; ++p, --size) c32 = add_byte(c32, *p);
  return c32;
}

ICECORE_WITH_CRC32C std::uint32_t hardware_word(std::uint32_t crc, std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(add_word(crc, word));
}
#endif

}  // namespace

std::uint32_t crc32c_portable(std::uint32_t crc, const void* data, std::size_t size) noexcept {
  const auto* p = static_cast<const unsigned char*>(data);
  for (; size >= 8; p += 8, size -= 8) crc = word_portable(crc, load_word(p));
  for (; size > 0; ++p, --size) crc = (crc >> 8) ^ tables[0][(crc ^ *p) & 0xff];
  return crc;
}

std::uint32_t crc32c(std::uint32_t crc, const void* data, std::size_t size) noexcept {
#if defined(ICECORE_HAS_CRC32C_INSTRUCTION)
  if (detail::has_crc32c_instruction) return hardware(crc, data, size);
#endif
  return crc32c_portable(crc, data, size);
}

// A checksum is linear: a start value adds to the checksum from 0 that start value, continued by zeros.
std::uint32_t crc32c_before(std::uint32_t after, std::uint32_t after_zero, std::size_t size) noexcept {
  std::uint32_t start = after ^ after_zero;
  for (; size >= 8; size -= 8) {
    start = before_word[0][start & 0xff] ^ before_word[1][(start >> 8) & 0xff] ^ before_word[2][(start >> 16) & 0xff] ^
            before_word[3][start >> 24];
  }
  for (; size > 0; --size) {
    for (int bit = 0; bit < 8; ++bit) start = before_bit(start);
  }
  return start;
}

std::uint32_t detail::crc32c_of_word(std::uint32_t crc, std::uint64_t word) noexcept {
#if defined(ICECORE_HAS_CRC32C_INSTRUCTION)
  if (detail::has_crc32c_instruction) return hardware_word(crc, word);
#endif
  return word_portable(crc, word);
}

}  // namespace icecore
