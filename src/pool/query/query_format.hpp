// What kept queries look like in a pool file. format.hpp is about everything else.
//
//   offset 12288 of the first file   query_anchor: leads to the newest query, and to free segments
//   segments "IQRY"                  a head segment for each query; segments of chunks
//
// A head segment: the segment's header, query_head, a query_part for each part, then the definition's bytes. A segment
// of chunks: the segment's header, then chunks, each from a cache line on. A store that never kept a query has none of
// these, and format 2; the first query makes it format 3, which older versions of icecore refuse.
#pragma once

#include <array>

#include "pool/format.hpp"

namespace icecore::format {

inline constexpr std::uint32_t query_segment_magic = 0x59525149U;  // "IQRY"
inline constexpr std::uint64_t query_anchor_offset = 3 * page_size;

/// Segments of queries have one of these sizes.
inline constexpr std::array<std::uint64_t, 3> query_segment_sizes{granule_size, 4 * granule_size, 16 * granule_size};
inline constexpr unsigned query_size_classes = 3;

/// All words are checked words that hold links.
struct query_anchor {
  std::atomic<std::uint64_t> newest;                    //  0  8  head segment of the newest query
  std::atomic<std::uint64_t> free[query_size_classes];  //  8 24  by size: the first free segment
  std::atomic<std::uint64_t> claim;                     // 32  8  the head segment that is being taken; 0: none
  std::uint64_t zero[3];                                // 40 24
};
static_assert(sizeof(query_anchor) == 64 && offsetof(query_anchor, free) == 8);

/// What a query's `state` word says.
enum class query_phase : std::uint8_t {
  open = 1,       ///< it may run
  finished = 2,   ///< all keys were examined
  cancelled = 3,  ///< it will not go on
  pausing = 4,    ///< it may run, but its runner is asked to stop
  dropped = 5,    ///< its segments are being freed
};

/// The atomic words are checked words; each line of them is written as a whole or word by word. The definition's bytes
/// begin, in all layouts: number of the layout (2), size of the name (4), the name, the version that is asked (8).
struct query_head {
  std::atomic<std::uint64_t> older;   //   0  8  head segment of the query before this one
  std::atomic<std::uint64_t> state;   //   8  8  query_phase
  std::atomic<std::uint64_t> runner;  //  16  8  who runs it; see query/kept/catalog.hpp; 0: nobody
  std::atomic<std::uint64_t> claim;   //  24  8  the segment that is being taken; 0: none
  std::atomic<std::uint64_t> segments[query_size_classes];  //  32 24  by size: its newest segment
  std::atomic<std::uint64_t> acknowledged;                  //  56  8  rows that the consumer has done with
  std::atomic<std::uint64_t> runs;                          //  64  8  how often it was begun or continued
  std::atomic<std::uint64_t> worked_us;                     //  72  8  time worked, microseconds
  std::atomic<std::uint64_t> keys_expected;                 //  80  8  keys of the store when it was started
  std::uint64_t id[2];                                      //  88 16  random; seeds the checksums of its chunks
  std::uint32_t parts;                                      // 104  4
  std::uint32_t definition_size;                            // 108  4  bytes
  std::uint32_t definition_crc;                             // 112  4  of id, parts, definition_size, and these bytes
  std::uint32_t zero_1;                                     // 116  4
  std::atomic<std::uint64_t> rebound;                       // 120  8  1: functions of other revisions were accepted
};
static_assert(sizeof(query_head) == 128 && offsetof(query_head, acknowledged) == 56);
static_assert(offsetof(query_head, runs) == 64 && offsetof(query_head, id) == 88);
static_assert(offsetof(query_head, definition_crc) == 112);

/// One interval of keys. All words are checked words.
struct query_part {
  std::atomic<std::uint64_t> first;      //  0  8  where its first chunk is or will be; 0: not begun
  std::atomic<std::uint64_t> newest;     //  8  8  its newest chunk; some that follow may be there already
  std::atomic<std::uint64_t> evaluated;  // 16  8  evaluations begun so far; written without a flush
  std::atomic<std::uint64_t> complete;   // 24  8  its rows, plus 1, once all of its keys were examined; else 0
  std::uint64_t zero[4];                 // 32 32
};
static_assert(sizeof(query_part) == 64 && offsetof(query_part, evaluated) == 16);

inline constexpr std::uint32_t query_chunk_magic = 0x4b484349U;  // "ICHK"

/// What the bytes of a chunk are.
enum class chunk_kind : std::uint8_t {
  counted = 1,  ///< no rows are kept
  keys = 2,     ///< keys of rows: query/media/key_rows.hpp
  bits = 3,     ///< which of the examined keys are rows: query/media/bit_rows.hpp
  moved = 4,    ///< 8 bytes: the link to the place where the part goes on
  columns = 5,  ///< selected columns of rows: query/media/column_rows.hpp
  skipped = 6,  ///< no row: its one key, the last one, could not be examined; a note says why
  failed = 7,   ///< the part stands where it stood: a note says before which key, and why
};

inline constexpr std::uint8_t chunk_is_last = 1;  ///< the part is complete

/// Followed by the last key that was examined, the aggregates, and the rows.
struct query_chunk {
  std::uint32_t magic;            //  0  4  query_chunk_magic
  std::uint32_t crc;              //  4  4  of everything behind it; see chunk.hpp for its seed
  std::uint32_t before_crc;       //  8  4  crc of the chunk before it in its part; 0: it is the first
  std::uint32_t sequence;         // 12  4  in its part, from 1
  std::uint16_t part;             // 16  2
  chunk_kind kind;                // 18  1
  std::uint8_t flags;             // 19  1
  std::uint16_t key_size;         // 20  2  bytes of the last key
  std::uint16_t folded_size;      // 22  2  bytes of the aggregates
  std::uint32_t in_segment;       // 24  4  bytes from the segment's header to this chunk
  std::uint32_t rows_size;        // 28  4  bytes of the rows
  std::uint32_t rows;             // 32  4  in this chunk
  std::uint32_t examined;         // 36  4  keys looked at for this chunk
  std::uint64_t rows_before;      // 40  8  in this part, before this chunk
  std::uint64_t examined_before;  // 48  8
  std::uint64_t repeated;         // 56  8  evaluations of this part that crashes made necessary again
  link older;                     // 64  8  the chunk before it in its part
  link jump;                      // 72  8  an older one: skew-binary, as in history/history.hpp
};
static_assert(sizeof(query_chunk) == 80 && offsetof(query_chunk, in_segment) == 24);
static_assert(offsetof(query_chunk, rows_before) == 40 && offsetof(query_chunk, older) == 64);

/// What a head segment is of. The two highest bits of its definition's layout tell.
enum class query_kind : std::uint8_t { query, feed, hold };

[[nodiscard]] constexpr query_kind kind_of(std::uint16_t layout) noexcept {
  if ((layout & 0x8000U) != 0) return query_kind::feed;
  return (layout & 0x4000U) != 0 ? query_kind::hold : query_kind::query;
}

// ---- Holds (src/query/hold/) ----
//
// A version that must not expire, by a name. A hold has a head segment as a query, with one part, which never begins,
// and no chunks. Its definition: the layout, the name, the version, and when it was made (8 bytes, nanoseconds since
// 1970-01-01 UTC). The first hold raises the minor version: a writer that does not know holds would take one for a
// query, and drop it where keys are forgotten.

inline constexpr std::uint16_t hold_definition_layout = 0x4001;
inline constexpr std::uint32_t hold_parts = 1;

// ---- Feeds (src/query/feed/) ----
//
// A feed that the store keeps has a head segment as a query, with two feed_places where a query has its parts, and a
// definition whose first number is feed_definition_layout. Behind the definition, from the next cache line on, a feed
// with a snapshot has room for two keys of the greatest size, one for each place.

inline constexpr std::uint16_t feed_definition_layout = 0x8001;

inline constexpr std::uint8_t feed_in_snapshot = 1;
inline constexpr std::uint8_t feed_key_known = 2;
inline constexpr std::uint8_t feed_beyond_lost = 4;  // src/query/feed/position.hpp

/// How far a feed is acknowledged. Of the two, the intact one with the greater sequence counts.
struct feed_place {
  std::uint64_t sequence;   //  0  8  from 1
  std::uint64_t at;         //  8  8  all versions below are told; or, in the snapshot, its version
  std::uint64_t changes;    // 16  8  of version `at` that are told
  std::uint32_t key_size;   // 24  4  bytes of the last key; only in the snapshot
  std::uint8_t flags;       // 28  1
  std::uint8_t zero_1[3];   // 29  3
  std::uint64_t zero_2[3];  // 32 24
  std::uint32_t zero_3;     // 56  4
  std::uint32_t crc;        // 60  4  of bytes 0-59 and the key; its seed as that of the definition
};
static_assert(sizeof(feed_place) == sizeof(query_part) && offsetof(feed_place, crc) == 60);

}  // namespace icecore::format
