// The on-media format of a compressed extent. Inflated, it is an extent (extent_format.hpp): same header, same blocks,
// same fence. Links, searches and walks know nothing else. On media it is
//
//   offset 0        framed_header, 64 bytes
//   offset 64       the extent's header, 128 bytes
//   offset 192      the extent's fence, as it is, then zeros up to a multiple of 8
//   table_at        frame_entry[frames]: by the places of the frames
//   behind it       the frames, back to back, up to the framed extent's end
//
// A frame is a run of whole blocks. It is a frame of zstd (RFC 8878), which tells its content's size; or the blocks as
// they are, if it has as many bytes as they have. A frame may have a parent, a frame before it: then it was compressed
// with the parent's blocks as what precedes its own. So the versions of a key cost what they differ by, and who reads
// one inflates its frame and those of its ancestors, at most frame_ancestors_max.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "stratum/extent_format.hpp"

namespace icecore::format {

inline constexpr std::uint32_t framed_magic = 0x5a584549U;  // "IEXZ"
inline constexpr std::uint32_t no_parent = UINT32_MAX;
inline constexpr unsigned frame_ancestors_max = 8;
/// A frame has at most so many bytes inflated, unless it is of one block.
inline constexpr std::uint64_t frame_bytes_max = std::uint64_t{1} << 20;

struct framed_header {
  std::uint32_t magic;       //  0  4
  std::uint32_t crc;         //  4  4  CRC32C of the other bytes of this header and of the extent's header, seeded
  std::uint64_t size;        //  8  8  on media, of all
  std::uint64_t table_at;    // 16  8
  std::uint32_t frames;      // 24  4
  std::uint32_t table_crc;   // 28  4  CRC32C of the table, seeded
  std::uint32_t slot_bytes;  // 32  4  of the first block: a search may guess with them
  std::uint8_t zero[28];     // 36 28
};
static_assert(sizeof(framed_header) == 64 && offsetof(framed_header, table_at) == 16);
static_assert(std::is_trivially_copyable_v<framed_header>);

struct frame_entry {
  std::uint32_t first_block;  //  0 4  its blocks end where those of the next frame begin
  std::uint32_t parent;       //  4 4  number of a frame before it, or no_parent
  std::uint32_t size;         //  8 4  on media
  std::uint32_t crc;          // 12 4  CRC32C of its bytes on media, seeded with the extent's seed and its number
};
static_assert(sizeof(frame_entry) == 16 && std::is_trivially_copyable_v<frame_entry>);

}  // namespace icecore::format
