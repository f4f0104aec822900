// The options for opening a store, and what a store reports about itself.
//
//   icecore::options o;
//   o.durability = icecore::durability::operation;   // every returned insert survives a power cut ...
//   icecore::store s("/mnt/pmem0/model.ice", o);     // ... or this throws errc::not_durable
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] icecore {

/// The number of one state of the store. Versions have 48 bits, start at 1 and grow by one with each tag; version 0 is
/// the empty store before its first write. No number is ever used twice, not even across a crash.
using version = std::uint64_t;

/// The largest version a store can reach.
inline constexpr version version_max = (version{1} << 48) - 1;

/// The greatest sizes of keys and values, in bytes.
inline constexpr std::size_t key_size_max = 65'535;
inline constexpr std::uint64_t value_size_max = 4'294'967'295;  // 4 GiB - 1

/// What survives a power cut. In every mode, a process crash loses no write that has returned.
enum class durability : std::uint8_t {
  best_available = 0,  ///< operation on persistent memory, tag on block devices, none on memory file systems
  none = 1,            ///< what sync() or a clean close has made durable
  tag = 2,             ///< every returned tag, with all writes it covers
  operation = 3,       ///< every returned write, and every value that a reader has seen
};

enum class access : std::uint8_t {
  read_write = 0,  ///< one process at a time
  /// Any number of processes; never changes the file. While another process has the store open for writing, this one
  /// reads beside it (options::beside_writer). While none has, this one keeps writers out, or lets them come
  /// (options::never_locks).
  read_only = 1,
  attached = 2,  ///< reads and writes a store that another process has open and shares (options::shared_as)
};

enum class creation : std::uint8_t {
  open_or_create = 0,
  open_existing = 1,  ///< errc::no_such_store if there is none
  create_new = 2,     ///< errc::store_exists if there is one
};

/// The index: chosen when a store is created, changed by change_index. All kinds hold the same keys and give the same
/// answers. Opening builds all but `persistent` in memory. n is the number of keys ever inserted.
enum class index_kind : std::uint8_t {
  btree = 1,       ///< B+-tree with optimistic lock coupling: the fastest
  skip_list = 2,   ///< lock-free skip list: no write waits for another, even if a thread is preempted; 64 bytes per key
  persistent = 3,  ///< skip list of fat nodes in the store's file: the time to open does not depend on the store's size
  list = 4,        ///< lock-free linked list: for small stores; finds and inserts are O(n); 32 bytes per key
  hash = 5,  ///< lock-free split-ordered list: finds are O(1); what comes in key order is sorted first, O(n log n)
};

/// Progress of a long operation, such as opening after a crash or verifying. `total` is 0 if it is not known.
struct progress {
  std::string_view what;
  std::uint64_t done;
  std::uint64_t total;
  std::string_view unit;
};
using progress_function = std::function<void(const progress&)>;

/// One file of a store of several files, and the NUMA node whose threads write to it.
struct placement {
  std::filesystem::path path;
  int node = -1;  ///< -1: any
};

/// What ended the last session of a store that was not closed. It decides about writes that the store's mode had not
/// made durable yet. If only the process died, they are all in the file, and all count. If the machine stopped, any
/// part of them may be lost, and none counts.
enum class crash_kind : std::uint8_t {
  unknown = 0,  ///< opening finds it out if it can (docs/guarantees.md), or else fails with errc::crash_unknown
  process = 1,  ///< only the process died: the machine ran on, or the file system received everything it wrote
  machine = 2,  ///< the machine stopped or lost power
};

/// When a store that is open for writing is packed (compaction.hpp).
enum class compaction_mode : std::uint8_t {
  by_call = 0,    ///< when store::compact() is called, or compact()
  automatic = 1,  ///< also by a thread of the open store, when enough was written
};

/// What automatic compaction may take.
struct compaction_limits {
  unsigned threads = 1;                ///< 0: as many as there are cores
  std::uint64_t bytes_per_second = 0;  ///< written on average, at most; 0: no limit
  std::uint64_t young_bytes = std::uint64_t{64}
                              << 20;  ///< it begins when so much was written, and half of what is packed
  bool compress = false;              ///< compression::zstd
};

struct options {
  icecore::access access = icecore::access::read_write;
  icecore::creation creation = icecore::creation::open_or_create;
  icecore::durability durability = icecore::durability::best_available;

  /// Accept `tag` and `operation` on a device that cannot provide them (a memory file system): all flushes and syncs
  /// are executed, nothing survives a power cut, and `store::durability()` says so. For measuring and testing.
  bool emulate_durability = false;

  /// With durability `operation` alone: no write, batch or tag waits until it is durable. sync() waits once for all
  /// that returned before it began, and a read waits if it shows what no sync() covers yet. A power cut takes the store
  /// back to what the last sync() covers (docs/guarantees.md). On persistent memory each write is durable all the same.
  /// For a program that answers many clients at once. errc::invalid_argument with another durability, or with
  /// `shared_as`.
  bool deferred_durability = false;

  /// Open a file that its last writer did not close and that has since been copied or moved to another inode. Correct
  /// only if that writer was dead when the copy was made.
  bool accept_copy = false;

  /// The kind of crash to assume if opening cannot find it out: on a machine other than the writer's, or if the kernel
  /// hides the machine's boot. If both boots are known and equal, it was the process, whatever this option says.
  icecore::crash_kind crash = crash_kind::unknown;

  /// Check large values (4096 bytes and more) at opening, not only when they are first read. For a copy that came from
  /// elsewhere. Reads the whole store.
  bool check_values = false;

  /// Create the store as a copy of this one, which must be closed, such as a checkpoint's file. Copying checks all of
  /// it, large values included. If a check fails, opening throws errc::damaged, which names the file and the place, and
  /// leaves no copy. The copy is durable once it is open; if the process is killed earlier, it leaves a file that
  /// cannot be opened as a store. Needs read_write access and a path with no file (else errc::store_exists). The source
  /// can be opened for reading meanwhile, but not for writing. Empty: no copy.
  std::filesystem::path copy_of;

  /// Open a damaged store with everything that is intact. Only for reading. A read of lost data throws errc::damaged if
  /// it is known to which key the data belonged; a key whose entry is lost seems not to be there (docs/guarantees.md).
  bool accept_damage = false;

  /// Shares the open store with other processes of this machine. Each opens it with access::attached and the same
  /// `shared_as`. Opening creates this file for the state they share (the index, and who writes where), and closing
  /// removes it. The path must be on a memory file system such as /dev/shm and must not exist yet. All processes belong
  /// to one user: attaching through a file that another user owns or may write is errc::permission. Attached processes
  /// read, write, tag, sync(), make a checkpoint(), set the retention, forget(), verify() and ask for stats() without
  /// the help of the process that opened the store, and compact() with its help. They keep feeds, run queries and
  /// release versions that are held. Only the opener can lose(), expire(), start_stored(), pause_compaction() and
  /// resume_compaction(), and, unless every write is durable by itself (operation durability, on persistent memory),
  /// start() queries and hold_version(). Attached processes release the store before the opener closes it; their later
  /// operations throw errc::closed. While it is shared, its pool can grow to 1 TiB, or to its size at opening plus 1
  /// GiB if that is more. If one of the processes is killed, even during a write, the others go on if the index is the
  /// persistent one; if the opener was killed, they go on without what only the opener can do. With the other indexes,
  /// and once the open store was packed, they get errc::poisoned if the process was killed during a write, and opening
  /// the store again recovers it. At most 65,536 processes can attach to an open store. Empty: not shared.
  std::filesystem::path shared_as;

  /// Ask for huge pages: for the index, and for a pool on a memory file system, which then grows by multiples of 2 MiB
  /// (Linux 6.1 or newer; a pool that was made without them keeps small pages). On other media the file system chooses
  /// the pool's page size.
  bool huge_pages = true;

  /// The index of a new store. An existing store keeps its index unless `change_index` is set.
  icecore::index_kind index = icecore::index_kind::btree;

  /// The maximum size of the lookup cache, a table in this process's memory of the entries that it found or inserted
  /// lately: finding or inserting such a key reads no node of the index. The table starts with 4 KiB and grows with the
  /// number of keys looked up, 8 bytes per key. Rounded down to a power of two. 0: no table.
  std::uint64_t lookup_cache_bytes = std::uint64_t{64} << 20;

  /// The memory for packed records that are compressed (compaction_options::compression), inflated: when there is more,
  /// what was not read lately is given back. What a value, snapshot, cursor or the like has shown stays as long as that
  /// lives, beyond this bound. A compaction of the open store, or a refresh() behind one, begins another cache: the one
  /// of before stays as long as snapshots and the like of before do. Where the kernel has no membarrier(2), nothing is
  /// given back before the store is closed. 0: an eighth of the machine's memory, but no more than 1 GiB.
  std::uint64_t block_cache_bytes = 0;

  /// Give an existing store the index `index`, built anew in place. If the store already has this kind, the new one is
  /// packed densely again. Needs read_write access and takes as long as opening without a persistent index. A crash
  /// meanwhile leaves the store with one of the two kinds, which the next opening builds.
  bool change_index = false;

  /// The secondary files of a new store of several files: one on each device, or in the memory of each NUMA node (at
  /// most 15). The first file is at the store's own path; a placement with that path gives it a node. A thread writes
  /// to the file of the node it runs on; files without a node share the threads of all other nodes. All files must be
  /// on media of one kind. To open the store again, its path is enough; placements then say where files were moved to.
  std::vector<placement> placements;

  /// Take memory on a thread of its own, before writers need it: the file grows, and an index in memory and the lookup
  /// cache are given their pages, so that no write waits while the kernel clears memory or a device allocates blocks.
  /// The thread begins when a file has 8 MiB or the lookup cache is to have more than 2 MiB, ends when the store is
  /// closed, and sleeps while nobody writes. Writers that outrun it take memory themselves. Only where a process opens
  /// the store for writing itself. Costs memory that is not used yet: of an index an eighth (at most 32 MiB); of the
  /// file a sixteenth (2 to 32 MiB), or what writers use in four times the time that growing takes (at most 1 GiB).
  /// False: writers take it themselves.
  bool grow_in_background = true;

  /// With read_only access, where another process of this machine has the store open for writing: open it all the same,
  /// and show the versions that are settled: closed, with no write under way that could still belong to them. The
  /// process that writes waits for nothing, and may be killed or closed and the store opened again; what
  /// is shown stays the same until store::refresh(), which shows what was settled since, and everything once that
  /// process has closed the store. clock() is the version behind the newest settled one. Opening reads all records, as
  /// it does without a persistent index. Kept queries, kept feeds and holds are read, too, and not changed; a
  /// checkpoint has none of them. Where no process has the store open for writing, this one keeps them out. False:
  /// errc::locked.
  bool beside_writer = true;

  /// With read_only access: never keep a process out that would write. A store that its last writer has closed is read
  /// as beside a writer, and everything is shown; the next writer begins a new version. Of a store whose last writer
  /// was killed what it had settled is shown, and errc::locked says it if nothing of that is left: after a restart of
  /// the machine. Finds take longer than with a lock, and a store with a persistent index is not opened at once. Not
  /// with beside_writer off, accept_damage or check_values.
  bool never_locks = false;

  /// With read_write access: tell readers beside this process which versions are settled: with each named tag and
  /// sync(), and about every 50 ms from one thread for all stores of the process. False: opening the store beside this
  /// process is errc::locked.
  bool publish_settled = true;

  /// With read_write access: whether the store is packed while it is open, and what that may take. Readers and writers
  /// go on meanwhile; writers are stopped for a moment at its end (store::compact()). With other access, opening with
  /// `automatic` is errc::invalid_argument: who opened the store for writing packs it.
  icecore::compaction_mode compaction = icecore::compaction_mode::by_call;
  icecore::compaction_limits compaction_limits{};

  /// Threads that read the pool at opening; 0: as many as there are cores.
  unsigned recovery_threads = 0;

  /// The opening thread calls this, at most about ten times a second. Empty: no progress reports.
  progress_function on_progress;
};

/// What the device provides, as the mapping and the file system report it; never assumed.
enum class medium : std::uint8_t {
  persistent_memory = 1,  ///< a CPU store is durable once flushed (DAX), or immediately (eADR)
  block_device = 2,       ///< durable once synced, in pages
  memory = 3,             ///< lost at power off (tmpfs, ramfs)
};

/// The durability that a store really has.
struct durability_info {
  icecore::durability mode;  ///< never best_available
  icecore::medium medium;
  bool emulated;             ///< the mode's flushes are executed, but the medium loses its contents at power off
  std::string flush_method;  ///< "clwb", "clflushopt", "clflush", "eADR", "fdatasync" or "none"
  std::string filesystem;    ///< "ext", "tmpfs", "xfs", ...; hexadecimal magic if unknown
  bool deferred = false;     ///< writes do not wait: options::deferred_durability
};

/// A named or timed tag.
struct tag_info {
  icecore::version version;
  std::int64_t time_ns;  ///< nanoseconds since 1970-01-01 UTC
  std::string name;      ///< may be empty
  std::string note;      ///< may be empty
};

/// One of the files of a store.
struct file_statistics {
  std::string path;
  int node;                  ///< the NUMA node whose threads write to it; -1: any
  std::uint64_t file_bytes;  ///< size of the file
  std::uint64_t used_bytes;  ///< up to the end of its last segment
};

/// Sizes and counts. Bytes are bytes of the pool file unless the comment says otherwise.
struct statistics {
  /// Keys ever inserted, including removed ones. No fewer than there are: a key counts in each stratum that has it, and
  /// once if it was written since it was packed. Exact if nothing is packed, or all of it is in one stratum.
  std::uint64_t keys;
  std::uint64_t keys_at_least;  ///< no more than there are; equal to `keys` where that is exact
  std::uint64_t records;        ///< inserts and removes of all versions
  std::uint64_t removes;        ///< the removes among these records
  std::uint64_t tags;           ///< named or timed tags
  version clock;                ///< the version that a write now belongs to
  std::uint64_t key_bytes;      ///< key bytes, of `keys`
  std::uint64_t value_bytes;    ///< value bytes of all records
  std::uint64_t used_bytes;     ///< records with their headers and padding, tags, batches, segment headers
  std::uint64_t file_bytes;     ///< size of the pool file, or of all pool files together
  std::uint64_t free_bytes;     ///< of these, what nothing has taken: later writes do, or the file is cut
  std::uint64_t live_bytes;     ///< of `used_bytes`, what is not garbage
  /// Of `used_bytes`, what no version shows, as far as it is known without reading records: `waiting_bytes`, and
  /// records that a later write of the same key in the same version has replaced, which the next compaction drops. With
  /// instant recovery, and beside a writer that has the store open, only those of them that this process wrote count.
  /// What only expired versions show, and keys to be forgotten, is not known before a compaction reads it: a dry run
  /// counts it.
  std::uint64_t garbage_bytes;
  /// Of `garbage_bytes`, what a compaction has replaced and could not give back yet: pins of this process, or a reader
  /// beside it, may still look at it.
  std::uint64_t waiting_bytes;
  std::uint64_t index_bytes;            ///< memory used by the index and the lookup cache
  std::uint64_t packed_keys;            ///< of `keys`, those that are packed: a key counts in each stratum that has it
  std::uint64_t packed_records;         ///< of `records`, those that are packed
  std::uint64_t packed_bytes;           ///< which these take, with what leads to them
  std::uint64_t strata;                 ///< in which they lie
  std::uint64_t packed_inflated_bytes;  ///< which they would take if nothing were compressed
  std::uint64_t block_cache_bytes_max;  ///< the bound of what is inflated of them; 0: nothing is compressed
  std::uint64_t block_cache_bytes;      ///< inflated now, in memory
  std::uint64_t block_cache_hits;       ///< a block was read for the first time, and was inflated already
  std::uint64_t block_cache_misses;     ///< it had to be inflated
  double recovery_seconds;              ///< the time that opening took
  bool recovered_from_crash;            ///< the last writer had not closed the store
  std::string path;
  std::string pool_id;  ///< 32 hexadecimal digits
  unsigned format_major;
  unsigned format_minor;
  icecore::index_kind index;
  bool recovered_instantly;  ///< instant recovery: opening did not read the records
  durability_info durability;
  std::vector<file_statistics> files;  ///< the first one's path is `path`
  std::uint64_t compactions;           ///< by themselves, since the store was opened (options::compaction)
  std::string compaction_failure;      ///< why the last of these failed; empty if it did not
  std::uint64_t pins;                  ///< values, snapshots, cursors and the like of this process that hold memory
  /// The version that was open when the oldest of these pins was taken, or an earlier one; empty if there is none.
  /// Known as closely as stats() is called: pins taken between two calls count as taken at the first of them, at a
  /// compaction, or when the store was opened, whichever was last. What a compaction replaced later than that waits for
  /// the pin.
  std::optional<version> oldest_pin;
  double oldest_pin_seconds;  ///< at most so long ago; 0 if there is none
  /// The oldest version that a kept query, a kept feed or a hold needs, which does not expire; empty if there is none.
  std::optional<version> oldest_held;
  std::uint64_t given_bytes;  ///< keys and values of the writes since the store was opened
  /// What these and the compactions since then wrote to the file: records with their headers, tags, packed extents and
  /// manifests. Neither padding, roots and segment headers, nor the nodes of a persistent index, nor queries and feeds.
  std::uint64_t written_bytes;
  /// How many bytes the file got for each one given; 0 if nothing was given.
  [[nodiscard]] double write_amplification() const noexcept {
    return given_bytes == 0 ? 0 : static_cast<double>(written_bytes) / static_cast<double>(given_bytes);
  }
};

/// One damaged place that verify found.
struct damage {
  std::uint64_t offset;            ///< byte in the pool file (in `file` if the store has several)
  std::string structure;           ///< "root", "segment", "entry", "record", "tag", "batch", "index", "query", "file"
  std::string what;                ///< what is wrong, in words
  std::optional<std::string> key;  ///< if known
  std::optional<icecore::version> version;  ///< if known
  std::string file = {};                    ///< the pool file
};

struct verify_report {
  std::vector<damage> damages;
  std::uint64_t segments = 0;
  std::uint64_t entries = 0;
  std::uint64_t records = 0;
  std::uint64_t tags = 0;
  std::uint64_t queries = 0;
  std::uint64_t bytes = 0;  ///< bytes that were checked against a checksum
  [[nodiscard]] bool ok() const noexcept { return damages.empty(); }
};

/// Versions of a key for which repair does not know the key's value, or whether the key was there.
struct unknown_versions {
  std::string key;
  version first;
  version last;  ///< the store's open version if no newer record of the key is left
  friend bool operator==(const unknown_versions&, const unknown_versions&) = default;
};

struct repair_report {
  std::vector<damage> losses;             ///< damage that lost something
  std::vector<damage> repaired;           ///< damage that lost nothing
  std::vector<unknown_versions> unknown;  ///< by key; in the new store the key is not there in these versions
  std::uint64_t keys = 0;                 ///< keys of the new store
  std::uint64_t records = 0;              ///< inserts and removes copied to the new store
  std::uint64_t tags = 0;                 ///< named or timed tags copied to the new store
  std::uint64_t queries = 0;              ///< kept queries of the new store, which start anew
  std::uint64_t feeds = 0;                ///< kept feeds of the new store, which go on
  std::uint64_t holds = 0;                ///< versions that the new store holds by name
  version clock = 0;                      ///< the open version of both stores
  /// Whether the new store holds everything that the old one did.
  [[nodiscard]] bool complete() const noexcept { return losses.empty(); }
};

}  // namespace icecore
