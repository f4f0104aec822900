// 8-byte keys as numbers that compare in the same order as the keys' bytes.
//
// Threads: all functions are pure. Cost: a load and a byte swap.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

namespace icecore::ranks {

inline constexpr std::size_t word_bytes = sizeof(std::uint64_t);

[[nodiscard]] inline std::uint64_t swapped_if_little(std::uint64_t word) noexcept {
  return std::endian::native == std::endian::little ? __builtin_bswap64(word) : word;
}

/// The 8 bytes at any address, in memory order.
[[nodiscard]] inline std::uint64_t load_word(const char* from) noexcept {
  std::uint64_t word;
  std::memcpy(&word, from, word_bytes);
  return word;
}
inline void store_word(char* to, std::uint64_t word) noexcept { std::memcpy(to, &word, word_bytes); }

/// The number of an 8-byte key: numbers compare as keys do.
[[nodiscard]] inline std::uint64_t load_key_word(const char* from) noexcept {
  return swapped_if_little(load_word(from));
}
[[nodiscard]] inline std::string key_of_word(std::uint64_t number) {
  std::string key(word_bytes, '\0');
  store_word(key.data(), swapped_if_little(number));
  return key;
}

}  // namespace icecore::ranks
