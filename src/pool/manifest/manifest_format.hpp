// The on-media format of a manifest: which extents of packed records are part of a store. format.hpp is about
// everything else.
//
//   offset 20480 of the first file   manifest_anchor: two slots, of which the root's `manifest` says the newest
//   segment "IMAN"                   manifest_header, then a named_extent for each extent, by stratum, then by key
//   segments "IPAK"                  an extent each (stratum/extent_format.hpp), behind the segment's header
//   segments "IFRE"                  free space: zeros behind the header
//
// A manifest is written once and never changed. Segments of records and of indexes whose `era` is not the manifest's
// are free space: what older ones held is in extents, and a newer one is of a compaction that a crash cut off. A store
// that was never packed has none of these, and its root's `manifest` is 0; the first manifest makes it format 4, which
// older versions of icecore refuse.
#pragma once

#include "pool/format.hpp"

namespace icecore::format {

inline constexpr std::uint32_t manifest_segment_magic = 0x4e414d49U;  // "IMAN"
inline constexpr std::uint32_t packed_segment_magic = 0x4b415049U;    // "IPAK"
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
  std::uint8_t zero[16];    // 48 16
};
static_assert(sizeof(manifest_slot) == 64 && offsetof(manifest_slot, bytes_crc) == 24);

struct manifest_anchor {
  manifest_slot slots[2];
};

/// An extent that is part of the store.
struct named_extent {
  link segment;              //  0 8  in which it lies
  std::uint64_t size;        //  8 8
  std::uint32_t seed;        // 16 4  of its checksums
  std::uint32_t stratum;     // 20 4  0 is the youngest
  std::uint32_t header_crc;  // 24 4  its header's: an extent of before is not taken for it
  std::uint32_t goes_on;     // 28 4  1: it begins with older records of the last key of the extent before it
  std::uint64_t first;       // 32 8  version of its first record
};
static_assert(sizeof(named_extent) == 40 && offsetof(named_extent, header_crc) == 24);

}  // namespace icecore::format
