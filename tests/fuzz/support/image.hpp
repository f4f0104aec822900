// A pool file of up to 512 KiB in few bytes, so that a fuzzer's mutations hit what is there and not the zeros between.
//
//   OFFSET SIZE MEANING
//        0    1 flags: image_flag
//        1    2 size of the file in units of 512 bytes, modulo 1025
//        3      runs, each: the place in the file, in words of 8 bytes (2 bytes); how many words (1 byte); the words.
//               A count of 0 stands for one word that is repeated: how often (2 bytes), the word.
//
// Numbers are little-endian. Every sequence of bytes is an image: what lies outside the file is left out, what is
// missing at the end is zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace icecore::testing {

namespace image_flag {
inline constexpr std::uint8_t resealed = 1;       ///< all checksums are made right (reseal.hpp)
inline constexpr std::uint8_t this_boot = 2;      ///< the roots say that this boot of the machine wrote them
inline constexpr std::uint8_t this_file = 4;      ///< the roots say that they are of the file they are opened from
inline constexpr std::uint8_t accept_copy = 8;    ///< opened with options::accept_copy
inline constexpr std::uint8_t durability = 48;    ///< two bits: opened for writing with durability 0 to 3
inline constexpr std::uint8_t synced_first = 64;  ///< the writes that are tried end with a sync
}  // namespace image_flag

inline constexpr std::size_t image_bytes_max = std::size_t{512} << 10;

struct image {
  std::uint8_t flags = 0;
  std::vector<std::byte> file;
};

[[nodiscard]] image expand(std::span<const std::uint8_t> description);
[[nodiscard]] std::vector<std::uint8_t> describe(const image& of);

}  // namespace icecore::testing
