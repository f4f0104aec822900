// The on-media format of a manifest: which extents of packed records are part of a store. format.hpp is about
// everything else.
//
//   offset 20480 of the first file   manifest_anchor: two slots, of which the root's `manifest` says the newest
//   segment "IMAN"                   a named_extent for each extent, by stratum, then by key; then the ranges of
//                                    versions that have expired, ascending, with gaps between them; then a named_value
//                                    for each value that extents refer to, by its place; at the segment's end a second
//                                    copy of that (rounded up to 8 bytes), and one of its manifest_slot
//   segments "IPAK"                  an extent each (stratum/extent_format.hpp), behind the segment's header
//   segments "IFRE"                  free space: zeros behind the header
//   segments "IFGT"                  a forget_header, then keys that are to be erased, each behind a forgotten_key;
//                                    these count until a compaction has given them back, whatever the manifest
//
// A manifest is written once and never changed. Segments of records and of indexes whose `era` is not the manifest's
// are free space, but for those that a named_value names: what older ones held is in extents, and a newer one is of a
// compaction that a crash cut off. Of the segment of a named_value nothing but that value counts. A store
// that was never packed has none of these, and its root's `manifest` is 0; the first manifest makes it format 7, which
// older versions of icecore refuse.
#pragma once

#include "pool/format.hpp"

namespace icecore::format {

inline constexpr std::uint32_t manifest_segment_magic = 0x4e414d49U;  // "IMAN"
inline constexpr std::uint32_t packed_segment_magic = 0x4b415049U;    // "IPAK"
inline constexpr std::uint32_t forget_segment_magic = 0x54474649U;    // "IFGT"
inline constexpr std::uint64_t manifest_anchor_offset = 5 * page_size;

/// Leads to a manifest. Slot `number` % 2 has the one of that number.
struct manifest_slot {
  std::uint32_t number;     //  0 4  of the manifest, from 1; 0: none
  std::uint32_t crc;        //  4 4  CRC32C of the slot's other bytes, seeded with pool id and place
  link at;                  //  8 8  of the manifest's segment
  std::uint64_t size;       // 16 8  of the manifest, behind the segment's header
  std::uint32_t bytes_crc;  // 24 4  CRC32C of the manifest, seeded with pool id and number
  std::uint32_t era;        // 28 4  of the segments of records and of indexes that count
  std::uint64_t extents;    // 32 8  how many it names
  std::uint64_t greatest;   // 40 8  the greatest version of a record in them
  std::uint64_t expired;    // 48 8  how many ranges of versions have expired
  std::uint64_t values;     // 56 8  how many it names
};
static_assert(sizeof(manifest_slot) == 64 && offsetof(manifest_slot, bytes_crc) == 24);

/// Which closed versions the store keeps (icecore::retention). Both slots say the same, or a crash was amid a change:
/// then the intact one with the greater number counts.
struct retention_slot {
  std::uint32_t number;   //  0 4  0: never written, and all versions are kept
  std::uint32_t crc;      //  4 4  CRC32C of the slot's other bytes, seeded with pool id and place
  std::uint64_t newest;   //  8 8
  std::uint64_t seconds;  // 16 8  of the age below which versions are kept
  std::uint32_t hourly;   // 24 4
  std::uint32_t daily;    // 28 4
  std::uint32_t weekly;   // 32 4
  std::uint32_t tagged;   // 36 4  1: versions that have a tag
  std::uint8_t zero[24];  // 40 24
};
static_assert(sizeof(retention_slot) == 64 && offsetof(retention_slot, hourly) == 24);

struct manifest_anchor {
  manifest_slot slots[2];
  retention_slot retention[2];
};
static_assert(sizeof(manifest_anchor) == 256);

/// A manifest has no more ranges of expired versions: 16 MiB.
inline constexpr std::uint64_t expired_ranges_max = std::uint64_t{1} << 20;

/// Of named_extent::flags.
inline constexpr std::uint32_t extent_goes_on = 1;   ///< it begins with older records of the last key of the one before
inline constexpr std::uint32_t extent_may_thin = 2;  ///< versions have expired since it was made
inline constexpr std::uint32_t extent_awaits = 4;    ///< a merge by ranges of keys has not come to it yet
inline constexpr std::uint32_t extent_replaces = 8;  ///< that merge has made it

/// What was written of these keys up to a version is to be erased.
struct forget_header {
  std::uint32_t crc;    //  0 4  CRC32C of the bytes up to `made` and of the keys, seeded as a record's at this place
  std::uint32_t count;  //  4 4  of keys
  std::uint64_t up_to;  //  8 8
  std::uint64_t size;   // 16 8  of what follows
  std::uint64_t made;   // 24 8  request_made once all of it is durable; before that a crash has cut it off
};
static_assert(sizeof(forget_header) == 32 && offsetof(forget_header, made) == 24);
inline constexpr std::uint64_t request_made = 0x3c7d0a91e65b2f48U;

/// The key's bytes follow.
struct forgotten_key {
  std::uint32_t size;       // 0 4
  std::uint32_t is_prefix;  // 4 4  1: all keys that begin with these bytes
};

/// An extent that is part of the store.
struct named_extent {
  link segment;              //  0 8  in which it lies
  std::uint64_t size;        //  8 8
  std::uint32_t seed;        // 16 4  of its checksums
  std::uint32_t stratum;     // 20 4  0 is the youngest
  std::uint32_t header_crc;  // 24 4  its header's: an extent of before is not taken for it
  std::uint32_t flags;       // 28 4  of extent_goes_on and the others
  std::uint64_t first;       // 32 8  version of its first record
};
static_assert(sizeof(named_extent) == 40 && offsetof(named_extent, header_crc) == 24);

/// A value that extents refer to, where it was written: in a segment of records of an earlier era.
struct named_value {
  link segment;          //  0 8
  std::uint64_t record;  //  8 8  where its record begins, from the segment's start
  std::uint64_t offset;  // 16 8  where the value does
  std::uint64_t size;    // 24 8
  std::uint32_t crc;     // 32 4  CRC32C of the value
  std::uint32_t zero;    // 36 4

  [[nodiscard]] link at() const noexcept { return segment + offset; }
};
static_assert(sizeof(named_value) == 40 && offsetof(named_value, crc) == 32);

}  // namespace icecore::format
