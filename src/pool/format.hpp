// The on-media format: the authoritative definition of every byte of a pool file. docs/format.md describes it in prose.
//
// All numbers are little-endian. Every structure starts at a multiple of 8. Zeroed media is a valid empty object: kind
// 0 means "no record", link 0 is null, stamp 0 means "not stamped yet", and a zero root was never written.
//
//   offset 0        root A     4 KiB   } the valid page with the greater sequence is the root
//   offset 4096     root B     4 KiB   }
//   offset 8192     live page  4 KiB   trusted only during this boot of the machine: the clock, the writer's pid
//   offset 12288    4 KiB: the anchor of kept queries (query/query_format.hpp), else zero
//   offset 16384    4 KiB of the first file: the lineage of a store that repair made, else zero
//   offset 20480    4 KiB of the first file: leads to the manifest (manifest/manifest_format.hpp), else zero
//   offset 24576    zero, reserved
//   offset 65536    segments: each a whole number of 64 KiB granules, a 64-byte header, then records front to back
//
// A record starts where the one before it ended, or after at most record_padding_max zero bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "pool/link.hpp"

namespace icecore::format {

inline constexpr std::uint64_t magic = 0x0045524f43454349U;  // "ICECORE\0"
inline constexpr std::uint32_t byte_order_mark = 0x01020304U;
inline constexpr std::uint16_t version_major = 2;  // a reader refuses other major versions than these
inline constexpr std::uint16_t version_major_with_queries = 3;
inline constexpr std::uint16_t version_major_with_manifest = 7;
inline constexpr std::uint16_t version_major_with_frames = 8;  // compressed extents
inline constexpr std::uint16_t version_major_with_values = 9;  // that lie where they were written
/// The formats from 4 on of packed stores whose fences did not tell the blocks' versions. No release wrote them.
inline constexpr std::uint16_t version_major_without_versions = 6;
inline constexpr std::uint16_t version_minor = 4;  // a writer refuses a greater minor version
inline constexpr std::uint16_t minor_with_lost_versions = 1;
inline constexpr std::uint16_t minor_with_evidence = 2;
inline constexpr std::uint16_t minor_with_joint_certificates = 3;
inline constexpr std::uint16_t minor_with_holds = 4;
inline constexpr std::uint16_t minor_of_new_stores = minor_with_evidence;

inline constexpr std::uint64_t page_size = 4096;
inline constexpr std::uint64_t granule_size = 64 * 1024;
inline constexpr std::uint64_t root_a_offset = 0;
inline constexpr std::uint64_t root_b_offset = page_size;
inline constexpr std::uint64_t live_page_offset = 2 * page_size;
inline constexpr std::uint64_t first_segment_offset = granule_size;
inline constexpr std::uint64_t cache_line_size = 64;

// ---- Checked words ----

/// A stamp word: bits 0-47 version, 48-62 check, 63 "persisted". Bit 63 is set only after the record is durable; on
/// media it means nothing. Zero: not stamped. The stamp of a batch record may also be `stamp_ready`.
inline constexpr unsigned stamp_check_bits = 15;
inline constexpr std::uint64_t stamp_version_mask = (std::uint64_t{1} << 48) - 1;
inline constexpr std::uint64_t stamp_persisted = std::uint64_t{1} << 63;
inline constexpr std::uint64_t stamp_check_mask = ~(stamp_version_mask | stamp_persisted);
/// All records of the batch are linked (and, under operation durability, durable): any thread may stamp the batch.
inline constexpr std::uint64_t stamp_ready = stamp_persisted;

// ---- Root ----

enum class root_state : std::uint8_t {
  clean = 1,  ///< closed: the certificate covers every record
  open = 2,   ///< a writer has it open, or died while it had it open
};

/// Whether what a root certifies was durable before that root was written.
enum class certificate_kind : std::uint8_t {
  proven = 0,  ///< it was (P2)
  joint = 1,   ///< one sync made both durable: after a power cut during that sync, any part may be missing
};

inline constexpr std::size_t files_max = 16;

/// Used by a store of several files; all zero in the root of a store that has one file.
struct root_files {
  std::uint64_t session;                 //    0    8  number of the last opening for writing: count << 32 | random
  std::uint64_t session_before;          //    8    8  file 0: the session before; other files may still name it
  std::uint16_t node_plus_1[files_max];  //   16   32  file 0: by file, the NUMA node of its writers, plus 1; 0: any
  std::uint16_t path_size[files_max];    //   48   32  file 0: of the paths of files 1, 2, ...; others: [0] of file 0's
  char paths[2968];                      //   80       back to back; relative ones start at the folder of file 0
};
static_assert(sizeof(root_files) == 3048 && offsetof(root_files, path_size) == 48);

/// Closed versions, from `first` to before `end`, whose state a power cut took.
struct lost_versions {
  std::uint64_t first;
  std::uint64_t end;
};

inline constexpr std::size_t lost_max = 54;

/// OFFSET SIZE MEANING
struct root {
  std::uint64_t magic;              //    0    8
  std::uint32_t byte_order;         //    8    4  byte_order_mark as the writer's machine stores it
  std::uint16_t version_major;      //   12    2
  std::uint16_t version_minor;      //   14    2
  std::uint64_t sequence;           //   16    8  counts root writes; the greater valid one is the root
  std::uint8_t pool_id[16];         //   24   16  random, seeds every checksum
  std::uint16_t pool_number;        //   40    2  this file's number in links
  std::uint16_t pool_count;         //   42    2  files of the store
  std::uint32_t granule_size;       //   44    4
  std::uint64_t file_size;          //   48    8  the file is at least this long
  std::uint64_t clock;              //   56    8  the open version when this root was written
  std::uint64_t clock_limit;        //   64    8  no version >= this was ever given out
  std::uint64_t durable_version;    //   72    8  D: records stamped <= D are certified; 0: only those below the fills
  std::uint64_t certified_records;  //   80    8  number of certified records
  std::uint64_t certified_sum;      //   88    8  sum of their record_digest()s
  root_state state;                 //   96    1
  std::uint8_t durability;          //   97    1  of the session that wrote this root (icecore::durability)
  std::uint8_t index;               //   98    1  icecore::index_kind
  certificate_kind certificate;     //   99    1
  std::uint32_t manifest;           //  100    4  number of the manifest; 0: the store was never packed
  std::uint8_t boot_id[16];         //  104   16  of the machine's boot in which it was written
  std::uint64_t inode;              //  120    8  of the pool file; detects a copy made while a writer had it open
  std::int64_t created_ns;          //  128    8  since 1970-01-01 UTC
  std::uint64_t used_end;           //  136    8  end of the last segment, if state is clean
  std::uint64_t epoch;              //  144    8  incremented by each opening for writing, before it changes anything
  link anchor;                      //  152    8  of the persistent index; null: there is none that can be trusted
  lost_versions lost[lost_max];     //  160  864  ascending, with gaps between them; zero behind the last
  root_files files;                 // 1024 3048
  std::uint8_t hash_seed[16];       // 4072   16  of the index `hash`: random since the store first had it; else zero
  std::uint32_t evidence_from;      // 4088    4  low half of the first epoch whose evidence counts
  std::uint32_t crc;                // 4092    4  CRC32C of bytes 0-4091
};
static_assert(sizeof(root) == page_size);
static_assert(offsetof(root, pool_id) == 24 && offsetof(root, file_size) == 48 && offsetof(root, state) == 96);
static_assert(offsetof(root, certificate) == 99 && offsetof(root, manifest) == 100);
static_assert(offsetof(root, boot_id) == 104 && offsetof(root, used_end) == 136 && offsetof(root, crc) == 4092);
static_assert(offsetof(root, epoch) == 144 && offsetof(root, anchor) == 152);
static_assert(offsetof(root, lost) == 160 && offsetof(root, files) == 1024);
static_assert(offsetof(root, hash_seed) == 4072 && offsetof(root, evidence_from) == 4088);
static_assert(std::is_trivially_copyable_v<root>);

// ---- Live page ----

/// Only the boot that wrote this page may trust it, except for writer_host.
struct live_page {
  std::atomic<std::uint64_t> clock;  //    0    8  the open version, plain
  std::uint8_t zero_1[56];           //    8   56  so that the clock has a cache line of its own
  std::uint64_t writer_pid;          //   64    8
  char writer_host[64];              //   72   64  zero-terminated
  std::uint8_t zero_2[56];           //  136   56
  // For readers beside the writer (store/beside/settled_point.hpp); a cache line of their own. All plain.
  std::atomic<std::uint64_t> settled_epoch;  //  192    8  first file: the epoch in which the rest holds; 0: none.
                                             //           With `settled_withheld`: its writer does not publish
  std::atomic<std::uint64_t> settled;        //  200    8  first file: the newest settled version
  std::atomic<std::uint64_t> settled_end;    //  208    8  no record of a settled version lies behind it in this file
};
inline constexpr std::uint64_t settled_withheld = std::uint64_t{1} << 63;
static_assert(sizeof(live_page) == 216 && offsetof(live_page, writer_pid) == 64);
static_assert(offsetof(live_page, settled_epoch) == 192);

// ---- Lineage ----

/// A store that repair made continues the one that was damaged, and those that this one continued.
struct ancestor {
  std::uint8_t pool_id[16];  //  0 16
  std::uint64_t end;         // 16  8  closed versions below it are the ancestor's, and this store's
};
static_assert(sizeof(ancestor) == 24);

inline constexpr std::uint64_t lineage_offset = 4 * page_size;
inline constexpr std::uint32_t lineage_magic = 0x4e494c49U;  // "ILIN"; 0: the store continues no other
inline constexpr std::size_t ancestors_max = 128;

/// Written once, when the store is made.
struct lineage_page {
  std::uint32_t magic;                //    0    4
  std::uint32_t count;                //    4    4  of ancestors
  lost_versions altered[lost_max];    //    8  864  of these, repair could not keep everything; as root.lost
  ancestor ancestors[ancestors_max];  //  872 3072  oldest first
  std::uint8_t zero[148];             // 3944  148
  std::uint32_t crc;                  // 4092    4  of bytes 0-4091, seeded with pool id and place
};
static_assert(sizeof(lineage_page) == page_size && offsetof(lineage_page, ancestors) == 872);
static_assert(offsetof(lineage_page, crc) == 4092);

// ---- Segment ----

inline constexpr std::uint32_t segment_magic = 0x47455349U;        // "ISEG": records
inline constexpr std::uint32_t free_segment_magic = 0x45524649U;   // "IFRE"
inline constexpr std::uint32_t index_segment_magic = 0x58444949U;  // "IIDX": of the persistent index, no records

struct segment_header {
  std::uint32_t magic;       //  0  4
  std::uint32_t granules;    //  4  4  size of the segment
  std::uint32_t generation;  //  8  4  times this space was given out; seeds the records' checksums
  std::uint32_t crc;         // 12  4  CRC32C of magic, granules, generation and an era, seeded with pool id and place
  std::uint64_t fill;        // 16  8  checked word: all bytes below this offset in the segment are certified
  std::uint64_t fill_end;    // 24  8  checked word, persistent index only: where records end; see logged_segments
  link next_free;            // 32  8  checked word, persistent index and queries: the next segment in its list
  std::uint64_t owner;       // 40  8  segments of queries only: the first half of the query's id
  std::uint32_t era;         // 48  4  records and indexes: that of the manifest then; the crc covers it unless it is 0
  std::uint8_t zero[12];     // 52 12
};
static_assert(sizeof(segment_header) == 64 && offsetof(segment_header, fill) == 16);
static_assert(offsetof(segment_header, era) == 48);
static_assert(offsetof(segment_header, fill_end) == 24 && offsetof(segment_header, next_free) == 32);
static_assert(offsetof(segment_header, owner) == 40);

// ---- Records ----

enum class record_kind : std::uint8_t {
  none = 0,    ///< nothing here
  entry = 1,   ///< a key and its first record
  insert = 2,  ///< a later insert
  remove = 3,  ///< a later remove
  batch = 4,   ///< the stamp of an atomic batch
  tag = 5,     ///< a named or timed tag
};

inline constexpr std::uint8_t flag_batched = 1;        ///< a batch link follows the header; the batch's stamp decides
inline constexpr std::uint8_t flag_large_value = 2;    ///< the value's own CRC follows; `crc` does not cover the value
inline constexpr std::uint8_t flag_removed_first = 4;  ///< an entry whose first record is a removal or missing
/// Never on media: in a private mapping it marks a record that stands for lost ones (store/check/salvage.hpp).
inline constexpr std::uint8_t flag_lost = 128;
inline constexpr std::uint8_t flags_known = flag_batched | flag_large_value | flag_removed_first;

/// Values of at least this size carry their own CRC and are checked when first read instead of at opening.
inline constexpr std::uint32_t large_value_size = 4096;
/// Large values start at a multiple of this, for vector instructions and for direct I/O by users.
inline constexpr std::uint64_t large_value_alignment = 64;
/// Two records of a segment have at most this many zero bytes between them.
inline constexpr std::uint64_t record_padding_max = 64;

/// The greatest depth of a record in its history: no key has more records.
inline constexpr std::uint32_t depth_max = 0xffffffff;

/// The first 24 bytes of every record.
struct record_header {
  record_kind kind;                  //  0  1  never zero, so a record's first word is never zero
  std::uint8_t flags;                //  1  1
  std::uint16_t key_size;            //  2  2  entry: key bytes; tag: name bytes; else 0
  std::uint32_t crc;                 //  4  4  all bytes but crc, stamp, an entry's head and beside_head, a large value
  std::atomic<std::uint64_t> stamp;  //  8  8
  std::uint32_t value_size;          // 16  4  insert, entry: value bytes; tag: note bytes; else 0
  std::uint32_t depth;               // 20  4  position in the history, from 1; batch: number of its records; tag: 0
};
inline constexpr std::uint64_t stamp_offset = offsetof(record_header, stamp);
static_assert(sizeof(record_header) == 24 && stamp_offset == 8);

/// In an entry's head: the newest record is the second, a removal. Pool numbers in links stay below this bit.
inline constexpr std::uint64_t head_is_second_removal = std::uint64_t{1} << 63;

/// Followed by the extensions, the key (padded to 8 with zeros) and the value. Recovery recomputes head and
/// beside_head; instant recovery keeps them.
struct entry_header {
  record_header record;             //  0 24
  std::atomic<std::uint64_t> head;  // 24  8  link to the newest record and a flag; 0: this one is the newest
  /// The meaning of this word depends on the kind of heads. It has one name for each kind.
  std::atomic<std::uint64_t> beside_head;  // 32  8

  /// Heads that opening computes: the version of the key's second record, once it is known; else 0.
  [[nodiscard]] auto& cached_second_version() noexcept { return beside_head; }
  [[nodiscard]] const auto& cached_second_version() const noexcept { return beside_head; }
  /// Durable heads: the head as it was when the record to which it led was last made durable (H7).
  [[nodiscard]] auto& committed_head() noexcept { return beside_head; }
  [[nodiscard]] const auto& committed_head() const noexcept { return beside_head; }
};
static_assert(sizeof(entry_header) == 40 && offsetof(entry_header, beside_head) == 32);

/// Followed by the extensions and the value.
struct update_header {
  record_header record;  //  0 24
  link entry;            // 24  8
  link older;            // 32  8  the key's record before this one
  link jump;             // 40  8  an older ancestor: skew-binary, see history/history.hpp
};
static_assert(sizeof(update_header) == 48 && offsetof(update_header, jump) == 40);

struct batch_header {
  record_header record;  //  0 24
};
static_assert(sizeof(batch_header) == 24);

/// Followed by the name (padded to 8 with zeros) and the note. The stamp is the version that the tag closes.
struct tag_header {
  record_header record;  //  0 24
  std::int64_t time_ns;  // 24  8
};
static_assert(sizeof(tag_header) == 32);

// Extensions, in this order, each 8 bytes and present by its flag:
//   flag_batched      link to the batch record
//   flag_large_value  CRC32C of the value (4 bytes), zero (4 bytes)

// ---- The persistent index (src/index/persistent/) ----

/// The 8 bytes of a key behind the node's prefix, and a link: in a leaf to the entry, else to a node one level below.
struct index_pair {
  std::atomic<std::uint64_t> head;  // 0 8
  std::atomic<std::uint64_t> to;    // 8 8
};

inline constexpr unsigned index_pairs_max = 27;
inline constexpr unsigned index_order_words = 4;

/// The first cache line holds everything that an added pair or a split changes. After a crash, a cache line holds what
/// it held at one instant.
struct index_node {
  std::atomic<std::uint64_t> lock;                      //   0   8  see index/persistent/nodes/node_lock.hpp
  std::atomic<link> next;                               //   8   8  the right neighbour on this level; null: the last
  std::atomic<std::uint64_t> high_head;                 //  16   8  8 bytes of the least key of `next`, after prefix
  std::atomic<link> high;                               //  24   8  entry with the least key of `next`; null: no bound
  std::atomic<std::uint64_t> order[index_order_words];  //  32  32  27 bytes: slots by key, 0xff behind the last; count,
                                                        //          level, prefix length (2), 0
  index_pair pairs[index_pairs_max];                    //  64 432
  std::atomic<link> low;                                // 496   8  entry of its lower bound; null: first of its level
  std::atomic<std::uint64_t> evidence;                  // 504   8  of the node at this place in the other granule
};
static_assert(sizeof(index_node) == 512 && offsetof(index_node, order) == 32 && offsetof(index_node, pairs) == 64);
static_assert(offsetof(index_node, low) == 496 && offsetof(index_node, evidence) == 504);

/// A segment of nodes, or of tag blocks, has two granules. In each granule, blocks lie at the same places, starting
/// behind the size of a segment header. Each granule holds one block less than would fit. So the place where a
/// segment's last block ends distinguishes these segments from those of format 2.1, which have one granule with 127
/// nodes.
inline constexpr std::uint64_t node_segment_size = 2 * granule_size;
inline constexpr std::uint64_t nodes_of_granule = 126;
inline constexpr std::uint64_t nodes_end = sizeof(segment_header) + nodes_of_granule * sizeof(index_node);
static_assert(nodes_end + sizeof(index_node) <= granule_size);

/// Where a thread takes nodes from; one thread at a time uses a source. One cache line.
struct node_source {
  std::atomic<std::uint64_t> position;  //  0  8  link to the next node of its segment; 0: it has none
  std::atomic<std::uint64_t> end;       //  8  8  link behind the last node of that segment
  std::atomic<std::uint64_t> pending;   // 16  8  the node taken last: linked (pending_in_use), or perhaps not
  std::atomic<std::uint64_t> segments;  // 24  8  granules that were ever taken; a statistic
  std::uint64_t zero[4];                // 32 32
};
static_assert(sizeof(node_source) == 64);
/// Set once the link that leads to the pending node is durable.
inline constexpr std::uint64_t pending_in_use = std::uint64_t{1} << 63;

/// What a writer had written when it took its segment. The two copies say the same and are written one after the other.
/// After a crash, the valid copy with the greater sequence counts.
struct writer_log {
  std::uint64_t sequence;   //  0  8
  link open;                //  8  8  the segment that the writer fills; null: none
  std::uint64_t from;       // 16  8  link behind the last record that is counted here
  std::uint64_t newest;     // 24  8  no record counted here has a greater version
  std::uint64_t totals[8];  // 32 64  of all records that the writer has ever written (record_totals)
  std::uint64_t open_size;  // 96  8  bytes of the segment at `open`
  std::uint64_t zero[2];    // 104 16
  std::uint32_t zero_2;     // 120 4
  std::uint32_t crc;        // 124 4  of bytes 0-123, seeded with pool id and place
};
static_assert(sizeof(writer_log) == 128 && offsetof(writer_log, crc) == 124);

inline constexpr unsigned writers_max = 128;
inline constexpr unsigned free_lists = 16;

/// The first granule of the index, in the first file: an index segment's header, then this.
struct index_anchor {
  std::atomic<std::uint64_t> top;                                //     0    8  the first node of the uppermost level
  std::atomic<std::uint64_t> first_leaf;                         //     8    8
  std::atomic<std::uint64_t> tags;                               //    16    8  the newest tag block
  std::atomic<std::uint64_t> tags_evidence;                      //    24    8  of all links to tags
  std::uint64_t zero[4];                                         //    32   32
  std::atomic<std::uint64_t> used_end[files_max];                //    64  128  by file: the end of its last segment
  std::atomic<std::uint64_t> free_space[files_max][free_lists];  //   192 2048  free-space lists, by file and size class
  node_source nodes[writers_max];                                //  2240 8192
  writer_log writers[writers_max][2];                            // 10432 32768
};
static_assert(offsetof(index_anchor, tags_evidence) == 24 && offsetof(index_anchor, used_end) == 64);
static_assert(offsetof(index_anchor, nodes) == 2240 && offsetof(index_anchor, writers) == 10432);
static_assert(sizeof(index_anchor) == 43200 && sizeof(segment_header) + sizeof(index_anchor) <= granule_size);
// All links and ends in the anchor, in node sources and in tag blocks are checked words; those in writer logs are not.

/// Links to tags in the order in which the tags were made. A block is as large as a node and is taken from the
/// same segments.
struct tag_block {
  std::uint64_t older;                  //  0   8  the block before this one, which is full
  std::atomic<std::uint64_t> tags[63];  //  8 504  0 behind the last; the first of each line leads to this block
};
static_assert(sizeof(tag_block) == sizeof(index_node));

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(std::atomic<std::uint64_t>) == 8);

[[nodiscard]] constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t multiple) noexcept {
  return (n + multiple - 1) / multiple * multiple;
}

}  // namespace icecore::format
