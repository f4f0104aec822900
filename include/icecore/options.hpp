// How a store is opened, and what it says of itself.
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

/// Names one state of the store. Versions are 48-bit, start at 1 and grow by one with each tag; version 0 is the
/// empty store before its first write. No number is ever used twice, not even across a crash.
using version = std::uint64_t;

/// The largest version a store can reach.
inline constexpr version version_max = (version{1} << 48) - 1;

/// Limits of what a store holds.
inline constexpr std::size_t key_size_max = 65'535;
inline constexpr std::uint64_t value_size_max = 4'294'967'295;  // 4 GiB - 1

/// What survives a power cut (a process crash loses nothing that was returned, in every mode).
enum class durability : std::uint8_t {
  best_available = 0,  ///< operation on persistent memory, tag on block devices, none on memory file systems
  none = 1,            ///< only sync() and a clean close
  tag = 2,             ///< every returned tag, with all it covers
  operation = 3,       ///< every returned write, and every value that was read
};

enum class access : std::uint8_t {
  read_write = 0,  ///< one process at a time
  read_only = 1,   ///< any number of processes, while no one writes; the file is never changed
  attached = 2,    ///< beside the process that has it open and shares it (options::shared_as): reads and writes
};

enum class creation : std::uint8_t {
  open_or_create = 0,
  open_existing = 1,  ///< errc::no_such_store if there is none
  create_new = 2,     ///< errc::store_exists if there is one
};

/// The ordered index; chosen when a store is created, changed by change_index. All hold the same and answer the same.
/// The first two are built in memory at opening.
enum class index_kind : std::uint8_t {
  btree = 1,       ///< B+-tree with optimistic lock coupling: the fastest one
  skip_list = 2,   ///< lock-free skip list: a write never waits for another, whoever loses its core; 64 bytes a key
  persistent = 3,  ///< skip list of fat nodes in the store's file: opening takes no longer however large the store is
};

/// Told while something long runs: opening after a crash, verifying. `total` is 0 where it is not known.
struct progress {
  std::string_view what;
  std::uint64_t done;
  std::uint64_t total;
  std::string_view unit;
};
using progress_function = std::function<void(const progress&)>;

/// A file of a store that has several, and the NUMA node whose threads are to write there.
struct placement {
  std::filesystem::path path;
  int node = -1;  ///< -1: any
};

/// What ended the last session of a store that was not closed. It matters for writes that its mode had not made durable
/// yet: those of a process that died are in the file, and all count; of a machine that stopped any part of them is
/// lost, and none counts.
enum class crash_kind : std::uint8_t {
  unknown = 0,  ///< found out where it can be (docs/guarantees.md), else asked for: errc::crash_unknown
  process = 1,  ///< the process alone: its machine ran on, or the file system had all that it wrote
  machine = 2,  ///< the machine stopped or lost its power
};

struct options {
  icecore::access access = icecore::access::read_write;
  icecore::creation creation = icecore::creation::open_or_create;
  icecore::durability durability = icecore::durability::best_available;

  /// Accept `tag` and `operation` on a device that cannot keep them (a memory file system): all flushes and syncs are
  /// executed, none survives a power cut, and `store::durability()` says so. For measuring and testing.
  bool emulate_durability = false;

  /// Open a file whose last writer did not close it although the file has been copied or moved to another inode
  /// since. Right only if that writer was dead when the copy was made.
  bool accept_copy = false;

  /// What is taken for true where nothing tells it: on another machine than the writer's, or where the kernel hides
  /// which boot of the machine this is. Where both boots are known and are one, it was the process, whatever this says.
  icecore::crash_kind crash = crash_kind::unknown;

  /// Check large values (4096 bytes and more) at opening too, not when they are first read: for a copy that came from
  /// elsewhere. Reads all of the store.
  bool check_values = false;

  /// Make the store as a copy of this one, which was closed, such as a checkpoint's file. All of it is checked, large
  /// values too, while it is copied; what fails is errc::damaged, with the file and the place, and nothing is left. The
  /// copy is durable when it is open; a process that is killed before leaves a file that no store opens. Takes
  /// read_write access, and a path where nothing is (else errc::store_exists). The other store can be opened for
  /// reading meanwhile, but not be written. Empty: no copy.
  std::filesystem::path copy_of;

  /// Open a damaged store with what is intact. Only for reading. Reads of what is lost throw errc::damaged wherever it
  /// can be told whose it was; a key whose entry is lost is not there (docs/guarantees.md).
  bool accept_damage = false;

  /// Shares the open store with other processes of this machine: each opens it with access::attached and the same
  /// `shared_as`, a file that is made here for what they share (the index, and who writes where) and that is gone when
  /// this store is closed. It must be on a memory file system such as /dev/shm, where nothing is at that path yet. All
  /// processes are of one user: attaching through a file that others own or may write is errc::permission.
  /// Attached processes find, insert, remove, apply batches, and read snapshots and histories as this one does; this
  /// one has no part in it. Only this one can close versions with a name, close any version under tag durability,
  /// sync(), verify(), and ask for stats() and lists of tags.
  /// They let go of the store before this one closes it: later operations of theirs throw errc::closed. While it is
  /// shared the pool grows to 1 TiB, or 1 GiB beyond what it was. If one of the processes is killed, be it amid a
  /// write, the others go on where the index is the persistent one, without what was this one's alone if it was this
  /// one; with the others they get errc::poisoned, and opening again recovers. At most 65,536 attach to an open store.
  /// Empty: nobody else.
  std::filesystem::path shared_as;

  /// Ask for huge pages: for the index, and for a pool on a memory file system, which then grows by multiples of 2 MiB
  /// (Linux 6.1 or newer; a pool that was made without them keeps small pages). Elsewhere the pool's pages are the file
  /// system's matter.
  bool huge_pages = true;

  /// Of a new store; an existing one keeps what it has, but with `change_index`.
  icecore::index_kind index = icecore::index_kind::btree;

  /// At most so many bytes of this process's memory for a table of the entries that it found or inserted lately, in
  /// front of the index: a find or insert of such a key reads no node of the index. It begins with 4 KiB and grows with
  /// what is looked up, 8 bytes a key; rounded down to a power of two. 0: no table.
  std::uint64_t lookup_cache_bytes = std::uint64_t{64} << 20;

  /// Give an existing store the index `index`, built anew in place (also if it has one of that kind, which is then
  /// packed densely again). Takes read_write access and as long as opening without an index that lasts. A crash
  /// meanwhile leaves the store with one of the two kinds, which the next opening builds.
  bool change_index = false;

  /// The further files of a new store that is to have several: one on each device, or in the memory of each NUMA node
  /// (at most 15). The first file is at the store's own path; a placement of that path gives it a node. Threads write
  /// to the file of the node they run on; files without a node share the threads of all others. All files must be on
  /// media of one kind. To open the store again its path is enough; placements are then where files have been moved to.
  std::vector<placement> placements;

  /// Threads that read the pool at opening; 0: as many as there are cores.
  unsigned recovery_threads = 0;

  /// Called from the opening thread, at most some ten times a second. Empty: silence.
  progress_function on_progress;
};

/// What the device gives, told by the mapping and the file system, never assumed.
enum class medium : std::uint8_t {
  persistent_memory = 1,  ///< stores are durable once flushed (DAX), or at once (eADR)
  block_device = 2,       ///< durable once synced, in pages
  memory = 3,             ///< gone at power off (tmpfs, ramfs)
};

/// The durability a store really has.
struct durability_info {
  icecore::durability mode;  ///< never best_available
  icecore::medium medium;
  bool emulated;             ///< the mode's flushes are executed but the medium forgets at power off
  std::string flush_method;  ///< "clwb", "clflushopt", "clflush", "eADR", "fdatasync" or "none"
  std::string filesystem;    ///< "ext", "tmpfs", "xfs", ...; hexadecimal magic if unknown
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
  int node;                  ///< the NUMA node whose threads write there; -1: any
  std::uint64_t file_bytes;  ///< size of the file
  std::uint64_t used_bytes;  ///< up to the end of its last segment
};

/// Sizes and counts. Bytes are of the pool file unless they say otherwise.
struct statistics {
  std::uint64_t keys;             ///< keys ever inserted (removed ones too)
  std::uint64_t records;          ///< inserts and removes of all versions
  std::uint64_t removes;          ///< of these, removes
  std::uint64_t tags;             ///< named or timed tags
  version clock;                  ///< the version that a write now belongs to
  std::uint64_t key_bytes;        ///< key bytes, once a key
  std::uint64_t value_bytes;      ///< value bytes of all records
  std::uint64_t used_bytes;       ///< records with their headers and padding, tags, batches, segment headers
  std::uint64_t file_bytes;       ///< size of the pool file, of all where there are several
  std::uint64_t index_bytes;      ///< memory the index takes, with the table in front of it
  std::uint64_t huge_page_bytes;  ///< of the whole process, in huge pages right now (0 if the kernel hides it)
  double recovery_seconds;        ///< what opening took
  bool recovered_from_crash;      ///< the last writer had not closed the store
  std::string path;
  std::string pool_id;  ///< 32 hexadecimal digits
  unsigned format_major;
  unsigned format_minor;
  icecore::index_kind index;
  bool opened_at_once;  ///< without reading the records: the index was there
  durability_info durability;
  std::vector<file_statistics> files;  ///< the first one's path is `path`
};

/// One damaged place found by verify.
struct damage {
  std::uint64_t offset;                     ///< byte in the pool file (in `file`, where the store has several)
  std::string structure;                    ///< "root", "segment", "entry", "record", "tag", "batch", "index", "file"
  std::string what;                         ///< what is wrong, in words
  std::optional<std::string> key;           ///< where it can be told
  std::optional<icecore::version> version;  ///< where it can be told
  std::string file = {};                    ///< the pool file
};

struct verify_report {
  std::vector<damage> damages;
  std::uint64_t segments = 0;
  std::uint64_t entries = 0;
  std::uint64_t records = 0;
  std::uint64_t tags = 0;
  std::uint64_t bytes = 0;  ///< bytes whose checks were computed
  [[nodiscard]] bool ok() const noexcept { return damages.empty(); }
};

/// Versions of a key of which repair cannot tell what it held, or whether it was there.
struct unknown_versions {
  std::string key;
  version first;
  version last;  ///< the store's open version, if nothing newer of the key is left
  friend bool operator==(const unknown_versions&, const unknown_versions&) = default;
};

struct repair_report {
  std::vector<damage> losses;             ///< where something was lost
  std::vector<damage> mended;             ///< damage that cost nothing
  std::vector<unknown_versions> unknown;  ///< by key; in the new store the key is not there in these versions
  std::uint64_t keys = 0;                 ///< of the new store
  std::uint64_t records = 0;              ///< inserts and removes that were taken over
  std::uint64_t tags = 0;                 ///< named or timed tags that were
  version clock = 0;                      ///< the open version of both stores
  /// Whether the new store holds all that the old one did.
  [[nodiscard]] bool complete() const noexcept { return losses.empty(); }
};

}  // namespace icecore
