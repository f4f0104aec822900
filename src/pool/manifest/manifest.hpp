// The manifest of a store: which extents are part of it, and which segments of records are not any more.
//
//   const manifest now = manifest_of(pools);                   // number 0 if the store was never packed
//   manifest next = now; ...; store_manifest(pools, next);     // durable, but no root leads to it yet
//   pools.roots().update_both([&](format::root& r) { name_manifest(r, next); });
//
// Threads: manifest_of() any; the others one at a time, in the process that has the store open for writing.
// Errors: manifest_of() raises errc::damaged if the root names a manifest that is not there.
// Invariants (the letters are those of docs/design/0028-freezing-and-compaction.md):
//   A9.  A manifest, and all that it names, is durable before a root leads to it.
//   A10. Space is given back only when both root pages lead to manifests that do not name it, and no reader that the
//        writer does not know of may still look at it (give_back()).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "icecore/retention.hpp"
#include "icecore/version_ranges.hpp"
#include "pool/manifest/manifest_format.hpp"
#include "pool/pool_set.hpp"

namespace icecore {

struct manifest {
  std::uint32_t number = 0;
  std::uint32_t era = 0;       ///< segments of records and of indexes of another one are free space
  version greatest = 0;        ///< version of a record in the extents
  bool is_compressed = false;  ///< an extent is; told to name_manifest(), not kept
  link segment = null_link;    ///< in which it lies
  std::vector<format::named_extent> extents{};
  std::vector<version_range> expired{};  ///< ascending, with gaps between them; version 0 never expires

  std::vector<format::named_value> values{};  ///< ascending by their places

  /// Whether a packed segment, or one with a manifest or with a value that extents refer to, is part of the store.
  [[nodiscard]] bool names(link at) const noexcept;
};

/// Whether the segments of extents are looked at: not by who wants to know which of them are damaged.
enum class extent_segments : std::uint8_t { checked, as_they_are };
[[nodiscard]] manifest manifest_of(const pool_set& pools, extent_segments of_extents = extent_segments::checked);
/// Called before a segment that only versions of icecore with manifests know is made: others would take it for damage.
/// From then on the next opening looks for what a crash leaves of such segments. Durable on return.
void announce_packed_segments(pool_set& pools);
/// Whether that was ever called.
[[nodiscard]] bool may_have_packed_segments(const format::root& r) noexcept;
/// Writes the extents and the expired versions of `next` as the manifest that follows `now`; sets its number and
/// segment. Durable on return.
void store_manifest(pool_set& pools, const manifest& now, manifest& next);
/// What store_manifest() writes of it.
[[nodiscard]] std::uint64_t manifest_size(const manifest& m) noexcept;
/// Makes a root lead to it.
void name_manifest(format::root& r, const manifest& m) noexcept;
/// What set_retention() stored last. errc::damaged if it cannot be known.
[[nodiscard]] retention retention_of(const pool_set& pools);
/// Durable on return, and as it was or as it is now after a crash.
void store_retention(pool_set& pools, const retention& which);
/// Called by an opening behind a crash: a killed process may have left what it stored in the caches alone, and from now
/// on it is shown. On media that are flushed by lines it is durable on return, elsewhere with the next sync.
void keep_retention(pool_set& pools);
/// What leads to this manifest, for a copy of the store that has it. Other processes may have packed the store since:
/// then the page leads to later ones.
[[nodiscard]] format::manifest_anchor anchor_of(const pool_set& pools, const manifest& of) noexcept;

/// What says whose the segment is: magic, granules, generation, crc and era; empty if there is no valid header. Others
/// may give the segment out meanwhile: it is the header of before or of afterwards, or empty.
[[nodiscard]] std::optional<format::segment_header> seen_header(const pool& in, link offset);
/// All segments of the files, of whatever kind, in the order of their places. Others may give out segments meanwhile:
/// these may be left out. Of a header `visit` gets magic, granules, generation, crc and era. Cost: a look at each
/// header.
void for_each_segment(const pool_set& pools,
                      const std::function<void(const segment&, const format::segment_header&)>& visit);
/// Those that are part of a store no more if this is its manifest.
[[nodiscard]] std::vector<segment> outdated_segments(const pool_set& pools, const manifest& of);

/// What they take in the file.
[[nodiscard]] std::uint64_t bytes_of(std::span<const segment> all) noexcept;

/// Makes segments free space, neighbours one free segment: zeros behind a header that says so. Their blocks go back to
/// the file system where it can take them. Returns the free segments; whoever wants allocate() to use them calls
/// add_free(). Does nothing, and returns none, while another process that reads the store without a lock may look at
/// them: then the next compaction or opening for writing tries again.
// Neighbours are given back together, by one system call. The first one becomes zero. Then its header takes in the
// others: they are one packed segment that the manifest does not name. Then all of that becomes zero.
// A crash leaves a segment in one of these states: as it was; taken in by its neighbour; either of these with zeros for
// some of its content; zero without a valid header, which is a hole; free. In the first three the next opening finds
// it, and knows by the manifest that it does not count.
std::vector<segment> give_back(pool_set& pools, std::vector<segment> all);

}  // namespace icecore
