// One store over the ranks of an MPI job: each rank owns a part of the keys, and every rank reads and writes them all.
//
//   MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
//   icecore::cluster c(MPI_COMM_WORLD, "/dev/shm/weather");
//   c.insert("station/" + std::to_string(rank), "12.5");
//   icecore::version v = c.tag("hour-1");                  // the same number and the same cut on all ranks
//   for (const auto& [key, value] : c.at(v).prefix("station/")) ...
//   c.close();
//
// Collective: the constructor, close() and the destructor, barrier, tag, consistency(mode), protect, checkpoint,
//   restore, compact, set_retention, retention, hold_version, release_version, forget, what starts, finds and drops
//   kept queries, and a snapshot's extract, stream and find_by_broadcast. Every rank calls them, in the same order, one
//   thread of each rank at a time. An error on one rank is thrown on all, and names the rank. Ranks that call different
//   collective functions all get errc::mpi, and the cluster can then only be closed. Any rank alone may call everything
//   else.
// Failures: a rank that fails where others wait for it (no memory for a request, a failed MPI call, an exception on
//   this rank only) notifies all: every wait and every later call ends with errc::rank_failed, which names it. Only
//   close() is still useful.
// Threads: with MPI_THREAD_MULTIPLE any number at once, and a thread of the cluster answers other ranks. With less, one
//   thread at a time, and a rank answers others only while it is inside a call of the cluster.
// Consistency: sequential: when a write returns, its owner has made it. Relaxed: writes to other ranks are staged and
//   sent in batches; the writer's own finds see them at once, other ranks after the writer's fence() or a barrier().
// Durability: as the store options say, for each owner; barrier(barrier_level::storage) makes all writes durable. After
//   a crash a tag is there on all ranks or on none.
// Lifetime: values are copies. Snapshots, cursors and ranges are valid while the cluster is open.
// Errors: icecore::error, whose message names the rank where it happened; std::bad_alloc. If an owner refuses a staged
//   write, the next fence(), barrier(), tag() or close() of the rank that wrote it throws the error.
// Cost: for a key of this rank or of its storage group (ranks of a node), that of the store; for another rank's key,
//   one message there and one back; see docs/cluster.md.
// Source: IPDPS 2022, section IV-A (distribution); PapyrusKV, SC 2017, sections 2 and 3.
#pragma once

#include <mpi.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/cluster_checkpoint.hpp"
#include "icecore/cluster_feed.hpp"
#include "icecore/cluster_query.hpp"
#include "icecore/cluster_snapshot.hpp"
#include "icecore/compaction.hpp"
#include "icecore/error.hpp"
#include "icecore/forgetting.hpp"
#include "icecore/options.hpp"
#include "icecore/retention.hpp"
#include "icecore/store.hpp"

namespace [[gnu::visibility("default")]] icecore {

/// When other ranks see a write.
enum class consistency : std::uint8_t {
  relaxed = 0,     ///< after the writer's next fence, or a barrier
  sequential = 1,  ///< when it has returned
};

/// What a cluster currently allows.
enum class protection : std::uint8_t {
  read_write = 0,
  write_only = 1,   ///< finds of newest values are refused
  read_only = 2,    ///< writes are refused; values of other ranks are kept in a cache
  update_only = 3,  ///< the set of keys is fixed: inserts of new keys and removes are refused; every write is
                    ///< sequential
};

enum class barrier_level : std::uint8_t {
  memory = 0,   ///< all ranks see all writes
  storage = 1,  ///< and they are durable, as far as the medium allows
};

/// A function that cluster::update runs at a key's owner. It may change `value` (empty: the key is absent; if it makes
/// it empty, the key is removed) and fill `output`, which the caller gets. It returns whether the value must be
/// written. It must not use the cluster.
using update_function = std::function<bool(std::string_view key, std::optional<std::string>& value,
                                           std::string_view input, std::string& output)>;

/// Which rank holds a key. All ranks must pass the same rule.
class ownership {
 public:
  using function = std::function<int(std::string_view key, int ranks)>;

  /// By a hash of the key, the same as by_hash().
  ownership() = default;
  [[nodiscard]] static ownership by_hash();
  /// By the caller's function. It must always return the same rank for the same key on all ranks, and several threads
  /// may call it at once. The cluster records its name: a program that opens the cluster again must give the same name.
  [[nodiscard]] static ownership by_function(std::string name, function owner);
  /// By ranges of keys: rank r holds the keys from splits[r - 1] on and before splits[r]. The splits are ascending, one
  /// fewer than ranks.
  [[nodiscard]] static ownership by_ranges(std::vector<std::string> splits);

  /// errc::invalid_argument if the caller's function returns a number that is not a rank.
  [[nodiscard]] int owner_of(std::string_view key, int ranks) const;
  /// errc::invalid_argument if this rule does not fit this number of ranks.
  void check(int ranks) const;
  /// One line that identifies this rule: "hash", "function NAME" or "ranges" with the splits in hexadecimal.
  [[nodiscard]] std::string description() const;
  /// Whether ranks hold ranges of keys in the order of the ranks.
  [[nodiscard]] bool ordered() const noexcept { return rule_ == rule::ranges; }
  /// Whether it uses a function of the caller.
  [[nodiscard]] bool custom() const noexcept { return rule_ == rule::function; }

 private:
  enum class rule : std::uint8_t { hash, function, ranges };
  rule rule_ = rule::hash;
  std::string name_;
  function owner_;
  std::vector<std::string> splits_;
};

struct cluster_options {
  /// How each rank's store is opened or made; all ranks must pass the same.
  icecore::options store{};
  icecore::ownership ownership{};  ///< by a hash, unless set
  icecore::consistency consistency = icecore::consistency::relaxed;
  /// The number of ranks in a storage group, counted from rank 0 on; 0: the environment's ICECORE_GROUP_SIZE or, if
  /// that is not set, the ranks of a node. The ranks of a group that run on one node access each other's stores
  /// directly (reaches_directly).
  int group_size = 0;
  /// Staged writes to one rank are sent when they take this many bytes. There are two such buffers for each rank that
  /// is written to.
  std::size_t staging_bytes = std::size_t{256} << 10;
  /// The most bytes that the cache of other ranks' values may take under protection::read_only.
  std::size_t cache_bytes = std::size_t{64} << 20;
  /// Whether a thread of the cluster answers other ranks where MPI_THREAD_MULTIPLE is given.
  bool progress_thread = true;
};

class cluster {
 public:
  /// Opens or creates the cluster at `path` (collective on `comm`, which is duplicated): a folder in which each rank
  /// has its pool `rank-N.ice`, and a manifest. The folder is the same for all ranks, or each node has its own. Errors:
  /// errc::mpi if MPI is not running; errc::invalid_argument if ranks of one node pass different folders;
  /// errc::other_cluster if the folder's content was made by another number of ranks or with another ownership, is
  /// incomplete, or is a checkpoint; the errors of opening a store.
  cluster(MPI_Comm comm, const std::filesystem::path& path);
  cluster(MPI_Comm comm, const std::filesystem::path& path, const cluster_options& opening);

  /// Closes and ignores errors (collective). MPI_Finalize closes a cluster that is still open.
  ~cluster();
  cluster(cluster&&) noexcept;
  cluster& operator=(cluster&&) noexcept;

  /// Fences, makes everything durable and closes every rank's store (collective). No other call may be running.
  void close();
  [[nodiscard]] bool is_open() const noexcept { return core_ != nullptr; }

  // ---- Writing -----------------------------------------------------------------------------------------------------

  /// Sets the key's value in the open version and returns that version. Limits as store::insert; for another rank's
  /// key, key and value together must be a little less than 2 GiB.
  version insert(std::string_view key, std::string_view value);
  /// Removes the key in the open version and returns that version, even if the key is absent.
  version remove(std::string_view key);
  /// Inserts many items, sent by owner; of equal keys the later wins. Returns the version they belong to. Under
  /// sequential consistency, if one insert fails, the others are still made.
  version insert_many(std::span<const item> items);
  /// Applies all operations at one instant, without staging, and returns the version they belong to.
  /// errc::invalid_argument unless all keys have one owner.
  version apply(const batch& operations);
  /// As store::insert_new, store::replace and store::apply_if; the owner decides, and nothing is staged. A batch with
  /// conditions on several owners could not be atomic: errc::invalid_argument unless all keys have one owner.
  std::optional<version> insert_new(std::string_view key, std::string_view value);
  std::optional<version> replace(std::string_view key, std::string_view value, version expected);
  std::optional<version> apply_if(const batch& operations);

  /// Gives an update function a number, on this rank. Every rank must define it before any of them uses it, with a
  /// barrier in between. errc::invalid_argument if the number has a function already.
  void define_update(int number, update_function change);
  /// Runs the function with that number at the key's owner, without staging, and returns its output. An owner runs
  /// updates one at a time, so each update sees the writes of those before it. It may overwrite a concurrent insert or
  /// remove of the key without having seen it. errc::invalid_argument if the owner has no such function; exceptions of
  /// the function. Always uses a message if the key is another rank's.
  std::string update(std::string_view key, int number, std::string_view input);
  /// Inserts in turn with the updates of the key, without staging: no update overwrites this value without having seen
  /// it. It costs less than an update, and works on the key's owner only: errc::invalid_argument on other ranks, which
  /// use update(). Threads: any number.
  version insert_in_turn(std::string_view key, std::string_view value);

  // ---- Reading -----------------------------------------------------------------------------------------------------

  /// The newest value.
  [[nodiscard]] std::optional<std::string> find(std::string_view key) const;
  /// The value in a closed version. errc::version_not_closed if `at` >= clock(); errc::version_lost if a power cut took
  /// the version on any rank; errc::version_expired if a compaction gave it up on any rank. All reads of a version have
  /// these errors.
  [[nodiscard]] std::optional<std::string> find(std::string_view key, version at) const;
  /// Calls `use` with the newest value, if there is one, and returns whether there is one. A value that is reached
  /// directly is not copied. `use` must not use the cluster; the view is valid until `use` returns.
  bool visit(std::string_view key, const std::function<void(std::string_view value)>& use) const;
  [[nodiscard]] bool contains(std::string_view key) const;
  [[nodiscard]] bool contains(std::string_view key, version at) const;

  /// The newest values; answer i belongs to keys[i]. Asks all owners at once, each in one message.
  [[nodiscard]] std::vector<std::optional<std::string>> find_many(std::span<const std::string_view> keys) const;
  [[nodiscard]] std::vector<std::optional<std::string>> find_many(std::span<const std::string_view> keys,
                                                                  version at) const;

  /// All records of the key, newest first. Staged writes are sent to the owner first.
  [[nodiscard]] std::vector<versioned_value> history(std::string_view key) const;

  /// All keys in a closed version. errc::version_not_closed, version_lost, unknown_tag.
  [[nodiscard]] cluster_snapshot at(version closed) const;
  /// The same for a version given as another type of integer, as the literal 0 is.
  template <std::integral Integer>
  [[nodiscard]] cluster_snapshot at(Integer closed) const {
    return at(static_cast<version>(closed));
  }
  cluster_snapshot at(std::nullptr_t) const = delete;
  [[nodiscard]] cluster_snapshot at(std::string_view tag_name) const;
  [[nodiscard]] cluster_snapshot at(const char* tag_name) const { return at(std::string_view(tag_name)); }

  // ---- Tags and versions -------------------------------------------------------------------------------------------

  /// Closes the open version of all ranks and returns its number, the same on all ranks (collective). The version
  /// contains every write that returned on any rank before the call. If it contains a write that began after another
  /// write had returned, it contains that other write too. Rank 0's name, note and time count, and rank 0 stores them.
  version tag();
  version tag(std::string_view name, std::string_view note = {});
  version tag(const tag_options& label);

  /// The version that a write now belongs to, the same on all ranks between two collective calls.
  [[nodiscard]] version clock() const;
  /// Named and timed tags, oldest version first.
  [[nodiscard]] std::vector<tag_info> tags() const;
  [[nodiscard]] std::optional<tag_info> find_tag(std::string_view name) const;

  // ---- Synchronising -----------------------------------------------------------------------------------------------

  /// Returns when the owners have made all writes that this rank has staged. Not collective. At storage level it also
  /// makes the whole content of the owners' stores durable; for that each owner closes its open version, as
  /// local().latest() does.
  void fence(barrier_level level = barrier_level::memory);
  /// Collective: afterwards all ranks see all that any rank wrote before. At storage level it is also durable, and the
  /// open version is closed if anything was written in it (but not under operation durability).
  void barrier(barrier_level level = barrier_level::memory);

  /// From now on, on all ranks (collective).
  void consistency(icecore::consistency mode);
  void protect(icecore::protection allowed);
  [[nodiscard]] icecore::consistency consistency() const;
  [[nodiscard]] icecore::protection protection() const;

  /// Fences, then sends the signal `signum` to each of `ranks`. A rank that waits for it sees all that this rank wrote
  /// before. Signals are counted, so none is lost.
  void signal_notify(int signum, std::span<const int> ranks);
  /// Waits for one signal from each of `ranks`.
  void signal_wait(int signum, std::span<const int> ranks);

  // ---- Checkpoints -------------------------------------------------------------------------------------------------

  /// Begins to write the cluster as it is now, with every version and tag, to a folder that all ranks share, and
  /// returns; writes continue meanwhile (collective). Closes the open version if anything was written in it. The new
  /// checkpoint replaces one that is in the folder when it is complete. close() waits for events that no thread has
  /// waited for.
  [[nodiscard]] checkpoint_event checkpoint(const std::filesystem::path& folder);

  /// Creates a cluster at `path` from a checkpoint and opens it (collective), with any number of ranks and any
  /// ownership. If both are those of the checkpoint, its files are copied and checked; otherwise every record is sent
  /// to its owner. errc::other_cluster if the checkpoint is not complete, damaged if some of its bytes fail their
  /// check, store_exists if a cluster is at `path`; after an error there is nothing that could be opened. Cost:
  /// O(bytes); redistributing needs 32 bytes of memory a record.
  [[nodiscard]] static cluster restore(MPI_Comm comm, const checkpoint_source& from, const std::filesystem::path& path,
                                       const cluster_options& opening = {});

  // ---- Upkeep ------------------------------------------------------------------------------------------------------

  /// Packs the stores of all ranks (compaction.hpp) while any thread goes on to read and write (collective; all pass
  /// the same `whole`, `dry_run`, `only_if_expiring` and compression). All ranks close the open version at one instant
  /// at the beginning and at the end, if anything was written in it; writers wait meanwhile, at the end for what was
  /// written since the beginning to be packed. A version expires on all ranks or on none, as the retention says: it
  /// must be needed by no query, feed or hold of any rank. The report has the sums of all ranks; `up_to` and
  /// `writers_stopped` are the least and the longest. Progress is that of this rank. All up to `up_to` is durable. If
  /// one rank fails, all throw its error; each store is whole, packed or not, and the next call does the rest.
  compaction_report compact(const compaction_options& how = {});

  /// Sets which closed versions compact() keeps from now on (retention.hpp), by the tags of the cluster (collective;
  /// all pass the same). Durable when it returns.
  void set_retention(const icecore::retention& which);
  /// As it was last set (collective). errc::damaged if that cannot be read any more: set it again.
  [[nodiscard]] icecore::retention retention();

  /// Holds a closed version on all ranks, by a name, as store::hold_version() (collective; all pass the same). Without
  /// a version the open one is closed as by tag(). No rank writes meanwhile. The version and the holds are durable when
  /// it returns. If one rank fails, all throw its error, and none holds it.
  version hold_version(std::string_view name, std::optional<version> at = {});
  /// Ends the hold of this name on all ranks (collective). errc::no_such_query if no rank has it.
  void release_version(std::string_view name);
  /// The holds of all ranks, as this rank's store has them. A crash amid hold_version() may leave one on some ranks: it
  /// keeps the version, and the next hold_version() of that name, or release_version(), takes it away.
  [[nodiscard]] std::vector<held_version> held_versions() const;

  /// Removes keys on the ranks that own them, and has the next compact() erase them from all versions on all ranks:
  /// forgetting.hpp (collective; all pass the same). No rank writes meanwhile. A tag of the cluster says so unless the
  /// request wants none. The report has the keys of all ranks. Durable when it returns. errc::protection while the
  /// ranks may not write. If one rank fails, all throw its error; some ranks may have noted the request, so call it
  /// again.
  forget_report forget(const forget_request& what);

  // ---- Kept queries ------------------------------------------------------------------------------------------------

  /// Starts a kept query on all ranks (collective); all ranks pass the same request. If it names no version, the open
  /// one is closed as by tag(). The version becomes durable, as by barrier() at storage level.
  [[nodiscard]] cluster_query start(const query_request& what);
  /// The query of this name (collective). `functions`: as store::query.
  [[nodiscard]] cluster_query query(std::string_view name, const function_resolver& functions = {});
  /// Takes away what there is of a query, on any ranks (collective).
  void drop_query(std::string_view name);

  // ---- Feeds (cluster_feed.hpp) ------------------------------------------------------------------------------------

  /// What changes on all ranks, told to this rank. The request has no name: its `token` is what a consumer keeps. A new
  /// feed begins behind `after`, or the newest version that is closed on all ranks.
  [[nodiscard]] cluster_feed feed(const feed_request& what) const;

  // ---- The cluster itself ------------------------------------------------------------------------------------------

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  /// The rank that holds the key. errc::invalid_argument if the caller's ownership function returns a number that is
  /// not a rank.
  [[nodiscard]] int owner_of(std::string_view key) const;
  /// The storage group of a rank, counted from 0.
  [[nodiscard]] int group_of(int rank) const;
  /// Whether the keys of that rank are read and written in its memory, without its participation: true for the ranks of
  /// its storage group that run on its node, unless the system isolates them.
  [[nodiscard]] bool reaches_directly(int rank) const;
  /// Whether a thread answers other ranks while this one is outside the cluster's calls.
  [[nodiscard]] bool has_progress_thread() const;
  /// The store of this rank, for reading. Its latest() would close the open version on this rank only, so read closed
  /// versions.
  [[nodiscard]] const icecore::store& local() const;
  /// The folder of this rank's pool.
  [[nodiscard]] const std::filesystem::path& path() const;

 private:
  explicit cluster(std::unique_ptr<mpi::cluster_core> core) noexcept;
  [[nodiscard]] mpi::cluster_core& core() const;

  std::unique_ptr<mpi::cluster_core> core_;
};

}  // namespace icecore
