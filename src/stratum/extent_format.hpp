// The on-media format of an extent: packed histories of neighbouring keys. The authoritative definition of its bytes.
//
// All numbers are little-endian. An extent is written once and never changed.
//
//   offset 0        extent_header, 128 bytes
//   offset 128      blocks, each from a multiple of 64 on
//   fence_at        the fence: how a search finds its block
//
// A block holds records in the order of (key ascending, version descending):
//
//   offset 0        block_header, 64 bytes
//   offset 64       slots, slot_bytes of each key:
//                     head      the key, if all keys have one size, from 1 to 8 bytes; else 8 bytes of it behind the
//                               block's prefix, filled up with zeros: heads compare as keys do, but for ties
//                     row       u16 or u32, unless block_flags::rows_of_one_size: where its first row begins, from
//                               rows_at on
//                     key end   u16 or u32, if keys have several sizes: where it ends, from keys_at on
//   keys_at         the keys, back to back, if they are not in the slots
//   rows_at         the rows, back to back, one of each record:
//                     version   version_bytes: (version - least) << 2 | packed_kind
//                     size      size_bytes, of the value; not of a removal
//                     value     with block_flags::aligned from the next multiple of 8 on, from the block's start; not
//                               of a removal. With packed_kind::elsewhere a value_reference
//
// What is u16 or u32 is u32 with block_flags::wide. Without size_bytes each value has value_size bytes. Rows of one
// size are of keys with one record each, none a removal. Behind the last row at least 16 bytes of the block are zero,
// so that words may be read from any place of it.
//
// The fence, of which each part begins at a multiple of 8:
//
//   heads           u64: for each block the head of its separator, behind the prefix that the extent's keys share;
//                   then each 16th of these, each 16th of those and so on, until at most 16 are left
//   newest          u64[blocks]: version_max if the block begins with a key of its own. Else the block goes on with the
//                   key of the one before, of whose records it holds those of this version and older
//   places          block_place[blocks + 1]: where each block begins, and where the last one ends
//   versions        block_versions[blocks]: which versions the block's records have
//   separator ends  u32[blocks]: from `separators` on
//   separators      for each block bytes that are greater than every key before it, and at most its first key; of the
//                   first block, and of one that goes on with a key, that key
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace icecore::format {

inline constexpr std::uint32_t extent_magic = 0x54584549U;  // "IEXT"
inline constexpr std::uint64_t block_alignment = 64;
inline constexpr std::uint64_t media_page = 4096;           // what a device reads at least
inline constexpr std::uint32_t block_padding = 16;          // zeros behind the last row
inline constexpr std::uint32_t block_entries_max = 65'535;  // keys or records
inline constexpr std::uint32_t fence_fanout = 16;
inline constexpr unsigned packed_kind_bits = 2;
inline constexpr std::uint32_t packed_version_bytes_max = 7;

enum class packed_kind : std::uint8_t {
  value = 0,
  removal = 1,
  elsewhere = 2,  ///< a value that lies where it was written
};

/// A value that no block has.
struct value_reference {
  std::uint64_t at;    // 0 8  link of its first byte
  std::uint64_t size;  // 8 8
};
static_assert(sizeof(value_reference) == 16 && std::is_trivially_copyable_v<value_reference>);

struct extent_header {
  std::uint32_t magic;        //   0  4
  std::uint32_t crc;          //   4  4  CRC32C of the other bytes of the header, seeded
  std::uint64_t size;         //   8  8  of the extent
  std::uint64_t records;      //  16  8
  std::uint64_t keys;         //  24  8  that begin here
  std::uint64_t removals;     //  32  8  records that are removals
  std::uint64_t least;        //  40  8  the oldest version of a record
  std::uint64_t greatest;     //  48  8  the newest
  std::uint64_t blocks_sum;   //  56  8  sum of mix64() of the blocks' checksums and places
  std::uint64_t fence_at;     //  64  8
  std::uint64_t separators;   //  72  8  bytes of them
  std::uint32_t blocks;       //  80  4
  std::uint32_t fence_crc;    //  84  4  CRC32C of the fence, seeded
  std::uint32_t prefix_size;  //  88  4  of the bytes that all keys of the extent share
  std::uint32_t zero_1;       //  92  4
  std::uint64_t key_bytes;    //  96  8  of the keys that begin here
  std::uint64_t value_bytes;  // 104  8
  std::uint8_t zero_2[16];    // 112 16
};
static_assert(sizeof(extent_header) == 128 && offsetof(extent_header, records) == 16);
static_assert(offsetof(extent_header, greatest) == 48 && offsetof(extent_header, fence_at) == 64);
static_assert(offsetof(extent_header, fence_crc) == 84 && offsetof(extent_header, key_bytes) == 96);
static_assert(std::is_trivially_copyable_v<extent_header>);

namespace block_flags {
inline constexpr std::uint8_t keys_in_slots = 1;
inline constexpr std::uint8_t keys_of_one_size = 2;
inline constexpr std::uint8_t rows_of_one_size = 4;
inline constexpr std::uint8_t aligned = 8;
inline constexpr std::uint8_t wide = 16;
inline constexpr std::uint8_t known = 31;
}  // namespace block_flags

struct block_header {
  std::uint32_t crc;           //  0 4  CRC32C of the block's other bytes, seeded with the extent's seed and the place
  std::uint32_t size;          //  4 4  of the block, with the zeros that fill it up, to a multiple of 64
  std::uint16_t keys;          //  8 2
  std::uint16_t records;       // 10 2
  std::uint8_t flags;          // 12 1
  std::uint8_t version_bytes;  // 13 1
  std::uint8_t size_bytes;     // 14 1  0: values have one size; 1, 2 or 4
  std::uint8_t slot_bytes;     // 15 1
  std::uint64_t least;         // 16 8  the oldest version of a record
  std::uint64_t greatest;      // 24 8  the newest
  std::uint16_t prefix_size;   // 32 2  of the bytes that all keys share, if they are not in the slots
  std::uint16_t key_size;      // 34 2  if keys have one size
  std::uint32_t value_size;    // 36 4  if values have one size
  std::uint32_t keys_at;       // 40 4
  std::uint32_t rows_at;       // 44 4
  std::uint32_t end;           // 48 4  of the last row
  std::uint8_t zero[12];       // 52 12
};
static_assert(sizeof(block_header) == block_alignment && offsetof(block_header, least) == 16);
static_assert(offsetof(block_header, value_size) == 36 && offsetof(block_header, zero) == 52);
static_assert(std::is_trivially_copyable_v<block_header>);

/// Where a block begins, and what a search can guess from before it has read the block.
struct block_place {
  std::uint32_t at;       // 0 4  in units of 64 bytes from the extent's start
  std::uint16_t keys;     // 4 2  as in its header
  std::uint16_t rows_at;  // 6 2  as in its header, in units of 64 bytes; 65535 if it is more
};
static_assert(sizeof(block_place) == 8 && std::is_trivially_copyable_v<block_place>);

/// The oldest and the newest version of a block's records: what they are more than the extent's oldest one, shifted to
/// the right by as many bits as it takes for the extent's newest one to have 32 bits.
struct block_versions {
  std::uint32_t least;     // 0 4
  std::uint32_t greatest;  // 4 4
};
static_assert(sizeof(block_versions) == 8 && std::is_trivially_copyable_v<block_versions>);

}  // namespace icecore::format
