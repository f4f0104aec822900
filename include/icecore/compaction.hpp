// Packs the versions of a store: they lie side by side in the order of keys then, and take a fraction of the space.
//
//   const icecore::compaction_report done = icecore::compact("model.ice");
//   fmt::print("{} records, {} bytes before, {} after\n", done.records, done.bytes_before, done.bytes_after);
//
// Nothing is lost unless the store's retention says so (retention.hpp): every version shows what it did, and the store
// is used as before. Versions that the retention does not keep expire, and what no kept version shows goes. Packed
// versions are scanned faster, single ones found somewhat slower (docs/design/0029-compaction-alone.md), and opening
// does not read them. Large values, those of a MiB and more for certain, are not copied: they stay where they were
// written until no version shows them, unless they are compressed. What is written later is packed by the next call. Of
// several writes of a key in one version the last one stays, as it is the one that the version shows. A feed that
// stands between the changes of a version tells that version from its first change again.
//
// Nobody else may have the store open; store::compact() packs one that is open. Errors: errc::locked if somebody has;
// those of opening; value_too_large, if a value to be compressed is longer than packed_value_size_max; no_space. After
// an error the store is as it was. Durability: a crash at any point leaves the store as it was before or as it is
// afterwards. Cost: reads what is packed, and writes it; on the way the store takes the space of both, or less
// (compaction_options::bytes_at_once). Memory: 64 MiB for each thread,
// and of values that are longer twice the longest, three times if they are compressed. Readers beside the writer
// (access::read_only) which have the store open keep what they have until they refresh() or end; the space that they
// look at is given back by the next compaction, or the next opening for writing, behind that. With `compression`
// versions of one key take little more than what they differ by. A store with compressed records has format 8, one with
// large values that stay has format 9; versions of icecore that do not know these refuse the store. Source: the
// log-structured merge-tree (O'Neil et al., Acta Informatica 33, 1996), with all versions kept.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "icecore/options.hpp"
#include "icecore/version_ranges.hpp"

namespace [[gnu::visibility("default")]] icecore {

/// Longer values, in bytes, are not compressed, nor packed where they would not stay where they are: 4 GiB less 128
/// KiB, since a value is packed with its key.
inline constexpr std::uint64_t packed_value_size_max = (std::uint64_t{1} << 32) - (std::uint64_t{1} << 17);

/// How packed records are stored.
enum class compression : std::uint8_t {
  none = 0,  ///< as they are, and read where they lie
  zstd = 1,  ///< compressed, and inflated when they are read (options::block_cache_bytes)
};

/// The levels of zstd: a greater one takes more time for less space. Reading is as fast with each.
inline constexpr int compression_level_min = 1;
inline constexpr int compression_level_max = 19;

/// For code that packs several open stores as one, such as a cluster. Both functions are called by the thread that
/// calls store::compact(). What they throw ends the compaction, and the store is as it was.
struct compaction_together {
  /// Called once at the beginning and once at the end, if there is something to pack: it calls `work`, once, which
  /// closes the open version if something was written in it. The compaction closes no version outside of it.
  std::function<void(const std::function<void()>& work)> at_one_instant;
  /// Gets the versions that have expired in this store or would do now, and those that may not expire here because
  /// queries or feeds hold them. Returns those that are expired afterwards: those of before must be among them.
  std::function<std::vector<version_range>(std::vector<version_range> expired, std::vector<version_range> held)>
      choose_expired;
};

struct compaction_options {
  /// Packs what is packed already once more, together with the rest, so that there is one stratum of all that was
  /// written before the call; what others write meanwhile may come to further ones. If not, strata that are much larger
  /// than what is new stay as they are.
  bool whole = false;
  /// Only counts: the report says what would be packed and what would go, `keys`, `records` and `strata` as they would
  /// be, `bytes_after` about what would be left, without what compression saves; `packed` is false, and the store stays
  /// as it is. compact() opens it for reading: beside a process that writes it, it counts what is settled. A
  /// store::compact() closes the open version.
  bool dry_run = false;
  /// Packs only if versions expire, or have expired and strata that are packed once more may have records of theirs. If
  /// not, nothing is packed, and compact() leaves the store as it is, its open version open.
  bool only_if_expiring = false;
  unsigned threads = 0;  ///< 0: as many as there are cores
  /// Written at most, on average, so that others have the rest of the device and of the cores; 0: no limit.
  std::uint64_t bytes_per_second = 0;
  /// Of packed records, about: a larger merge of strata is done by ranges of keys with so many, each by a durable
  /// change of its own. So it takes little more space than that on the way, and one that a crash or an error cuts off
  /// goes on where it was. Records that were not packed yet are written once more for it. 0: an eighth, if the store
  /// has a retention or more than 4 GiB are merged; all at once, if not, and for compaction_together, or while keys are
  /// to be forgotten.
  std::uint64_t bytes_at_once = 0;
  /// Of what is packed now. Strata that stay as they are keep what they have; `whole` leaves none of these.
  icecore::compression compression = icecore::compression::none;
  int compression_level = 3;  ///< from compression_level_min to compression_level_max
  /// The calling thread calls this about ten times a second while the records are packed, and once at their end; not
  /// while writers are stopped at the end of a compaction of an open store, so it may write there. What it throws ends
  /// the compaction, and compact() throws it. In a process that is attached to the store it is called when the process
  /// that packs has come so far, and at the end when that one is done: what it throws then changes nothing any more.
  progress_function on_progress = {};
  /// Only store::compact() of the process that opened the store. Then what is written meanwhile is packed at the end,
  /// while writers wait.
  const compaction_together* together = nullptr;
};

struct compaction_report {
  bool packed = false;                 ///< false: there was nothing to pack, and nothing has changed
  std::uint64_t keys = 0;              ///< in what was packed now
  std::uint64_t records = 0;           ///< in what was packed now
  std::uint64_t strata = 0;            ///< that the store has now
  version up_to = 0;                   ///< all versions up to this one are packed
  std::uint64_t bytes_before = 0;      ///< that the store's files took on the device, or in memory
  std::uint64_t bytes_after = 0;       ///< that they take now
  std::uint64_t bytes_written = 0;     ///< to pack
  std::uint64_t versions_expired = 0;  ///< by this call; reading them is errc::version_expired from now on
  std::uint64_t records_dropped = 0;   ///< that no kept version shows, of those that were packed now
  /// How long writers were stopped, at the end of a compaction of an open store.
  std::chrono::microseconds writers_stopped{0};
  /// Nothing is left in the files of what went, but in the segments of large values that stay, where only a request to
  /// forget erases it. False: views of this process hold what went, which a later call gives back; or another process
  /// reads beside the writer, and keys that were to be forgotten are still in what it may look at; or a kept query that
  /// may hold some of them still runs, or its rows are read, in any process; or some of these were written or removed
  /// while the store was packed. A later call erases them.
  bool erased = true;
};

[[nodiscard]] compaction_report compact(const std::filesystem::path& path, const options& opening = {},
                                        const compaction_options& how = {});

}  // namespace icecore
