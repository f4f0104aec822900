// What the parts of a framed extent say of each other.
#pragma once

#include <cstdint>

#include "base/checksum.hpp"
#include "stratum/frames/frame_format.hpp"

namespace icecore::stratum {

inline constexpr std::uint64_t framed_fence_at = sizeof(format::framed_header) + sizeof(format::extent_header);

/// Of an extent, inflated: its places have 32 bits.
inline constexpr std::uint64_t framed_extent_size_max = (std::uint64_t{UINT32_MAX} + 1) * format::block_alignment;

/// Where the table of frames begins behind a fence of so many bytes.
[[nodiscard]] inline std::uint64_t table_at(std::uint64_t fence_size) noexcept {
  return (framed_fence_at + fence_size + 7) / 8 * 8;
}

/// What the checksum of a frame begins with.
[[nodiscard]] inline std::uint32_t frame_seed(std::uint32_t extent_seed, std::uint32_t frame) noexcept {
  return crc32c(extent_seed, std::uint64_t{frame});
}

[[nodiscard]] inline std::uint32_t framed_crc(format::framed_header header, const format::extent_header& inner,
                                              std::uint32_t extent_seed) noexcept {
  header.crc = 0;
  return crc32c(crc32c(extent_seed, &header, sizeof header), &inner, sizeof inner);
}

}  // namespace icecore::stratum
