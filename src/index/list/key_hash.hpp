// The hash of keys: SipHash-2-4 with a secret seed.
//
// Keys may come from strangers. Whoever can choose keys that collide makes every find of them walk through all of them,
// so the hash must be a pseudorandom function: without the seed nobody can tell which keys collide. Fast hashes with a
// secret seed are none (docs/design/0017-list-and-hash.md).
//
// Threads: all functions are pure.
#pragma once

#include <sodium/crypto_shorthash_siphash24.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace icecore::index {

/// Kept in the store's root, so the order of a hash index lasts as long as the store.
using hash_seed = std::array<std::uint8_t, crypto_shorthash_siphash24_KEYBYTES>;

[[nodiscard]] inline std::uint64_t hash_of(std::string_view key, const hash_seed& seed) noexcept {
  std::array<unsigned char, crypto_shorthash_siphash24_BYTES> bytes;
  crypto_shorthash_siphash24(bytes.data(), reinterpret_cast<const unsigned char*>(key.data()), key.size(), seed.data());
  std::uint64_t hash = 0;
  std::memcpy(&hash, bytes.data(), sizeof hash);
  if constexpr (std::endian::native == std::endian::big) hash = __builtin_bswap64(hash);
  return hash;
}

/// The number whose bits are those of `n` from last to first.
[[nodiscard]] constexpr std::uint64_t reversed_bits(std::uint64_t n) noexcept {
  n = (n >> 1 & 0x5555555555555555U) | (n & 0x5555555555555555U) << 1;
  n = (n >> 2 & 0x3333333333333333U) | (n & 0x3333333333333333U) << 2;
  n = (n >> 4 & 0x0f0f0f0f0f0f0f0fU) | (n & 0x0f0f0f0f0f0f0f0fU) << 4;
  return __builtin_bswap64(n);
}

}  // namespace icecore::index
