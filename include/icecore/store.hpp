// An ordered map that never forgets.
//
//   icecore::store s("model.ice");
//   s.insert("layer1/bias", "0.5");
//   icecore::version v = s.tag("epoch-1");
//   s.insert("layer1/bias", "0.7");
//   s.remove("layer1/bias");
//   s.find("layer1/bias", v);                        // "0.5", and it always will be
//   for (const auto& [key, value] : s.at("epoch-1").range()) ...
//
// Threads: any number of threads may call any function at once, except close(), the destructor and the move operations.
//   Finds and scans take no lock; they wait for a writer only while it changes the index node that they read. Writers
//   of different keys rarely wait for each other. See docs/guarantees.md (G1 to G3). Threads that the library makes
//   (for scans on several, for memory ahead, for what readers beside the writer may see) run on the cores of the thread
//   that makes them; if that is bound to one core, on all that the process had when the library was loaded.
// Durability: the mode the store was opened with; `durability()` reports what the device provides.
// Lifetime: what a read returns keeps its bytes valid: values, snapshots, cursors, ranges, histories, differences and
//   lists each hold a pin (pin.hpp) and may outlive the store. A view copied out of one of them (a std::string_view) is
//   valid as long as that object. References that path() and lost_versions() return end with the open store.
// Errors: icecore::error (error.hpp), std::bad_alloc. A write or tag that throws has not taken effect, unless the error
//   is errc::poisoned: then reopening the store shows whether it has.
// Cost: find O(log keys + log records of the key); insert the same, plus one flushed record and one fence under
//   operation durability; tag O(1); at() free.
// Source: IPDPS 2022 (multi-version ordered dictionary, Table I).
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/checkpoint.hpp"
#include "icecore/compaction.hpp"
#include "icecore/error.hpp"
#include "icecore/forgetting.hpp"
#include "icecore/history.hpp"
#include "icecore/options.hpp"
#include "icecore/pin.hpp"
#include "icecore/query.hpp"
#include "icecore/retention.hpp"
#include "icecore/snapshot.hpp"
#include "icecore/value.hpp"
#include "icecore/version_ranges.hpp"

namespace [[gnu::visibility("default")]] icecore {

/// Inserts and removes that take effect at one instant: readers and crashes see all of them or none. If several
/// operations name one key, the last one counts. A batch copies its keys and values. One thread at a time may use it.
/// insert_new() and replace() also set a condition for the whole batch, about the state that the batch finds: if one
/// condition does not hold, nothing happens. Only store::apply_if() takes such a batch.
class batch {
 public:
  void insert(std::string_view key, std::string_view value);  ///< errc::key_too_long, errc::value_too_large
  /// Removing a key that is not there changes no answer of finds, scans and histories. But `stats()` counts the
  /// removal, and `keys()` lists the key.
  void remove(std::string_view key);
  /// The condition: the key is not there.
  void insert_new(std::string_view key, std::string_view value);
  /// The condition: the key is there, and its newest record has this version. errc::invalid_argument if that is 0.
  void replace(std::string_view key, std::string_view value, version expected);
  void clear() noexcept { operations_.clear(); }
  [[nodiscard]] bool empty() const noexcept { return operations_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return operations_.size(); }

  struct operation {
    std::string key;
    std::optional<std::string> value;  ///< empty: remove
    /// The condition: the version of the key's newest record, or 0 if the key must not be there. Empty: none.
    std::optional<version> expected = {};
  };
  /// Whether there are conditions. O(operations).
  [[nodiscard]] bool has_conditions() const noexcept;
  [[nodiscard]] const std::vector<operation>& operations() const noexcept { return operations_; }

 private:
  std::vector<operation> operations_;
};

/// What a tag records besides its version.
struct tag_options {
  std::string_view name{};                ///< unique in the store, at most 65,535 bytes; empty: none
  std::string_view note{};                ///< at most 65,535 bytes
  std::optional<std::int64_t> time_ns{};  ///< nanoseconds since 1970-01-01 UTC; empty: now
};

class change_range;   // changes.hpp
class many_versions;  // timeline.hpp
class stretch_range;
class feed;  // feed.hpp
struct feed_info;
struct feed_request;

class store {
 public:
  /// Opens the store at `path` and creates it if it does not exist, unless the options forbid that. After a crash it
  /// recovers the store first, in one parallel pass over the records.
  /// Errors: every errc of opening (see error.hpp). When the constructor throws, the content of the store has not
  /// changed.
  explicit store(const std::filesystem::path& path, const options& opening = {});

  /// Closes the store and ignores errors; call close() to see them.
  ~store();
  store(store&&) noexcept;
  /// Closes the store that is assigned to, and ignores errors.
  store& operator=(store&&) noexcept;

  /// Makes everything durable, as far as the device can, and releases the file and its locks. No call on the store, its
  /// snapshots, cursors or ranges may be running. Values, snapshots and whatever else was read stay valid, and any
  /// thread may release them, now or later; but snapshots and cursors cannot read on (errc::closed).
  void close();
  [[nodiscard]] bool is_open() const noexcept { return opened_ != nullptr; }

  // ---- Writing -----------------------------------------------------------------------------------------------------

  /// Sets the key's value in the open version and returns that version. The key has at most 65,535 bytes, the value at
  /// most 4 GiB - 1 bytes; both may hold any bytes, and both are copied. errc::invalid_argument if the key already has
  /// 2^32 - 1 records.
  version insert(std::string_view key, std::string_view value);
  /// The same with a value that is given in parts, which it holds one behind the other: a header and an array, say. A
  /// value of a MiB and more is put into the file from where its parts lie; a shorter one is joined before.
  version insert_parts(std::string_view key, std::span<const std::string_view> value);

  /// Removes the key in the open version. Returns the version of the removal, or empty if the key was not there.
  std::optional<version> remove(std::string_view key);

  /// Inserts the key if it is not there, and returns the version; empty if it is there: then nothing has changed.
  /// Whether the key is there is decided at the instant of the insert, so of several threads that insert one key, one
  /// succeeds. Under operation durability, the record that showed that the key is there is durable before the call
  /// returns.
  std::optional<version> insert_new(std::string_view key, std::string_view value);

  /// Sets the key's value if its newest record has version `expected`, and returns the new version; empty if the key is
  /// not there, or its newest record is of another version. Decided at the instant of the write, as insert_new().
  /// A version is that of many writes: those to the open version all have the same one. So between two writes of a key
  /// that must not be mistaken for each other, close a version.
  std::optional<version> replace(std::string_view key, std::string_view value, version expected);

  /// Applies all operations of the batch at one instant and returns the version they belong to.
  /// errc::invalid_argument if the batch has conditions.
  version apply(const batch& operations);
  /// The same if all conditions of the batch hold; empty, and nothing has changed, if one does not. With conditions,
  /// the other writers of the store wait meanwhile.
  std::optional<version> apply_if(const batch& operations);

  /// Closes the open version and returns its number. From then on that version is an immutable snapshot of all writes
  /// completed before. O(1). Under tag durability it returns when the snapshot is durable.
  version tag();
  /// The same; stores a name, a note and a time with the tag. errc::tag_exists if the name is taken.
  version tag(std::string_view name, std::string_view note = {});
  version tag(const tag_options& label);

  /// Closes all versions below `open` in one step, so that `open` becomes the open version. Does nothing if `open` is
  /// already open or closed. O(1). Code that copies a store version by version uses it to skip versions without writes,
  /// rather than tag each one. No other thread may write meanwhile. The step is as durable as the next write.
  /// errc::invalid_argument if no store can reach that version (the limit is some thousands below 2^48).
  void skip_to(version open);

  /// Marks these closed versions as lost, as recovery marks the versions that a power cut took: from now on reading one
  /// fails with errc::version_lost. Durable when it returns. Meant for code that copies a store; nothing else may use
  /// the store meanwhile; a process that reads beside this one shows them until it opens the store again.
  /// errc::invalid_argument if one of the versions is not closed, or is 0. Cost: two syncs.
  void lose(const version_ranges& versions);

  /// Marks these closed versions as expired, as a compaction does: from now on reading one fails with
  /// errc::version_expired. For code that copies a store, as lose(). errc::invalid_argument if one of the versions is
  /// the newest closed one, is not closed, is held by a call, or is 0. Cost: some syncs.
  void expire(std::span<const version_range> versions);

  /// Sets which closed versions compact() keeps from now on (retention.hpp); all, unless it was called. Durable when it
  /// returns: a crash meanwhile leaves what was set before, or this. errc::invalid_argument for a negative age.
  void set_retention(const icecore::retention& which);

  /// Holds a closed version, by a name: it does not expire until it is released, whatever the retention is or becomes.
  /// Empty: the present, as latest(). Returns the version. What it shows stays, for each key the newest record at or
  /// before it; versions before it, and the records of these in histories, may go. Forgetting goes before it: a key
  /// that is forgotten is gone from this version, too. The version and the hold are durable when the call returns.
  /// Holds are in checkpoints and in repaired stores, not in dumps. errc::version_not_closed, version_lost,
  /// version_expired; query_exists if a hold has this name; invalid_argument if the name is empty or has more than
  /// 65,535 bytes, or in a process that is attached to the store, unless every write is durable by itself; read_only.
  /// Cost: O(queries, feeds and holds), a few flushed lines or syncs, and 64 KiB of the file.
  version hold_version(std::string_view name, std::optional<version> at = {});
  /// Ends the hold of this name, durably. The next compaction may let the version expire. errc::no_such_query;
  /// read_only; damaged if none that can be read has the name, and others cannot be read: verify() names those.
  void release_version(std::string_view name);
  /// All holds that can be read, by version.
  [[nodiscard]] std::vector<held_version> held_versions() const;

  /// Removes keys, and has the next compact() erase them from all versions: forgetting.hpp. The request is durable when
  /// it returns. key_too_long; invalid_argument if nothing is named; no_space before anything has happened. If another
  /// error comes amid the removals, the request is taken back, and some keys may be removed from the present alone.
  /// Cost: a write for each key that is there, a tag, and a sync.
  forget_report forget(const forget_request& what);

  /// Returns when all completed writes survive a power cut, as far as the medium allows. Where durability is deferred,
  /// and in modes other than operation durability, it closes the open version if anything was written in it, because a
  /// power cut takes the store back to a closed version. Calls that wait at the same time in a deferred store share one
  /// sync. Cost on a block device: one sync of each file; under durability `tag` and `none` two, one after the other.
  void sync();
  /// Of a store that is open beside processes that write it (options::beside_writer): shows the versions that were
  /// settled since it was opened, or last refreshed, and all that the last of them left when it closed the store.
  /// Snapshots, cursors and values stay what they were. Returns the newest version that can be read. Of any other
  /// store: returns that version and does nothing else. Where the store was packed meanwhile (compact()): what
  /// snapshots and values lead into is kept until they end, and all else may be used again; versions that the
  /// compaction gave up are errc::version_expired from then on. damaged, io, no_space, locked (a process gives space
  /// back, and does not end), unsupported_format (a newer icecore writes the store by now) and std::bad_alloc change
  /// nothing. Cost: a look at each segment of the files, and the new records; behind a compaction, all records that
  /// were written since.
  version refresh();
  /// All versions up to this closed one survive a power cut, as far as the medium allows. In a deferred store: those
  /// that a sync() covered. O(1).
  [[nodiscard]] version durable_version() const;

  /// Captures the whole store as it is now, with every version and tag. The checkpoint can be written to a file while
  /// writes go on. Closes the open version if anything was written in it. Cost: O(segments); writers wait that long.
  /// Nothing is copied yet.
  [[nodiscard]] icecore::checkpoint checkpoint() const;

  // ---- Reading -----------------------------------------------------------------------------------------------------

  /// The newest value.
  [[nodiscard]] std::optional<value> find(std::string_view key) const;
  /// The value in a closed version. errc::version_not_closed if `at` >= clock(); errc::version_lost if a power cut took
  /// the version; errc::version_expired if compact() gave it up. Every function that reads a version fails in these
  /// ways.
  [[nodiscard]] std::optional<value> find(std::string_view key, version at) const;
  [[nodiscard]] bool contains(std::string_view key) const { return find(key).has_value(); }
  [[nodiscard]] bool contains(std::string_view key, version at) const { return find(key, at).has_value(); }

  /// Finds many keys at once and overlaps their memory accesses (on large stores several times as fast as single
  /// finds). out[i] is the answer for keys[i], valid as long as the returned pin lives. errc::invalid_argument unless
  /// the sizes are equal.
  pin find_many(std::span<const std::string_view> keys, version at,
                std::span<std::optional<std::string_view>> out) const;
  /// The same, with a version for each key.
  pin find_many(std::span<const std::string_view> keys, std::span<const version> at,
                std::span<std::optional<std::string_view>> out) const;

  /// The snapshot of a closed version. Free. errc::version_not_closed, version_lost, version_expired, unknown_tag. In a
  /// store opened for reading, version clock() may be read too, because no process writes; a later writer may still add
  /// to that version.
  [[nodiscard]] snapshot at(version closed) const;
  /// The same for a version given as another type of integer, as the literal 0 is.
  template <std::integral Integer>
  [[nodiscard]] snapshot at(Integer closed) const {
    return at(static_cast<version>(closed));
  }
  snapshot at(std::nullptr_t) const = delete;
  [[nodiscard]] snapshot at(std::string_view tag_name) const;
  [[nodiscard]] snapshot at(const char* tag_name) const { return at(std::string_view(tag_name)); }
  [[nodiscard]] snapshot at(std::chrono::system_clock::time_point time) const;

  /// The present: closes the open version if anything was written in it (without making it durable), and returns the
  /// newest closed version. O(1). On a store opened for reading it closes nothing and returns everything written so
  /// far.
  [[nodiscard]] snapshot latest() const;

  /// All records of the key that the store keeps. Empty if it was never inserted. Where versions have expired,
  /// records of them, and of the versions behind each, may be missing: key_history::thinned().
  [[nodiscard]] key_history history(std::string_view key) const;

  /// Every key ever written between the bounds, including removed ones, in key order. With the
  /// persistent index this includes the new keys of a batch that never took effect because its process was killed;
  /// their history is empty. O(keys), with the index `hash` O(n log n).
  [[nodiscard]] pinned_list<std::string_view> keys(const key_bounds& bounds = {}) const;

  /// What changed from one closed version to another, in key order. Costs what was written between them, or O(keys):
  /// changes.hpp says when.
  [[nodiscard]] diff_range diff(version before, version after, key_bounds bounds = {}) const;

  /// All that was written in the versions after `after` up to `up_to`, by key, then by version: include
  /// icecore/changes.hpp. Both versions must be closed, and none from one to the other may have expired. What power
  /// cuts left of versions between them is among it. errc::invalid_argument if `up_to` is smaller than `after`.
  [[nodiscard]] change_range changes(version after, version up_to, key_bounds bounds = {}) const;

  /// For each key the stretches of versions, within those from `from` to `up_to`, in which the condition held: include
  /// icecore/timeline.hpp. errc::invalid_argument as changes(), and for a condition that reads what only changes have.
  [[nodiscard]] stretch_range during(const filter& condition, version from, version up_to,
                                     key_bounds bounds = {}) const;
  /// Counts and totals of many closed versions, in one pass over each key's history: include icecore/timeline.hpp.
  [[nodiscard]] many_versions each(std::vector<version> versions) const;

  /// A pin on this store: everything read from it from now on stays valid as long as the pin lives, even if the object
  /// that it was read from has ended.
  pin hold() const;

  // ---- Kept queries (query.hpp) ------------------------------------------------------------------------------------

  /// Starts a query: when it returns, the version and the query are durable. It runs by query::run().
  /// errc::query_exists if the name is taken; version_not_closed, version_lost; invalid_argument in a process that is
  /// attached to the store, unless every write is durable by itself; read_only. Cost: O(parts log keys), and a sync.
  icecore::query start(const query_request& what);
  /// Starts a query that asks what another one does, perhaps in another store: these are its query::stored() bytes. Its
  /// functions are given when it is run. errc::bad_token if the bytes are damaged, or of a later icecore;
  /// invalid_argument in a process that is attached to the store.
  icecore::query start_stored(std::span<const std::byte> question);
  /// The query of this name, in whatever state. `functions` finds the functions of the caller that its filter calls.
  /// errc::no_such_query, naming the nearest one; unknown_function.
  [[nodiscard]] icecore::query query(std::string_view name, const function_resolver& functions = {}) const;
  /// All queries, oldest first.
  [[nodiscard]] std::vector<icecore::query> queries() const;
  /// Drops queries that are over; returns how many. Those that run, anywhere, stay.
  std::size_t prune_queries(const prune_options& which = {});

  // ---- Feeds (include icecore/feed.hpp) -----------------------------------------------------------------------------

  /// A feed: the changes from a version on. One with a name goes on where it was acknowledged; it is made if there is
  /// none. errc::query_exists if the feed of this name has another filter; version_not_closed, version_lost; bad_token;
  /// read_only if a store opened for reading would have to keep it.
  [[nodiscard]] icecore::feed feed(const feed_request& what) const;
  /// The feed of this name, with the filter that it was made with; `functions` finds the functions of the caller that
  /// this calls; `secret` as in feed_request. errc::no_such_query, unknown_function.
  [[nodiscard]] icecore::feed open_feed(std::string_view name, const function_resolver& functions = {},
                                        std::string_view secret = {}) const;
  /// Takes the feed of this name away. errc::no_such_query, read_only.
  void drop_feed(std::string_view name);
  /// The feeds that the store keeps, oldest first.
  [[nodiscard]] std::vector<feed_info> feeds() const;

  // ---- Tags and versions -------------------------------------------------------------------------------------------

  /// The version that a write now belongs to; all smaller ones are closed.
  [[nodiscard]] version clock() const;
  /// The closed versions that power cuts took, including the numbers that recovery skipped. Reading one of them always
  /// fails with errc::version_lost.
  [[nodiscard]] const version_ranges& lost_versions() const;
  /// The closed versions that compactions gave up: ascending ranges with gaps between them. Reading one always fails
  /// with errc::version_expired. Their tags are still listed. Valid as long as the store is open.
  [[nodiscard]] std::vector<version_range> expired_versions() const;
  [[nodiscard]] bool is_expired(version v) const;
  /// As set_retention() was last told. errc::damaged if that cannot be read any more: set it again.
  [[nodiscard]] icecore::retention retention() const;
  /// Named and timed tags, oldest version first.
  [[nodiscard]] std::vector<tag_info> tags() const;
  /// The tag of this name, or of this version; empty if none.
  [[nodiscard]] std::optional<tag_info> find_tag(std::string_view name) const;
  [[nodiscard]] std::optional<tag_info> find_tag(version tagged) const;
  /// The first tag of this version or a later one; empty if none. For reading tags one by one.
  [[nodiscard]] std::optional<tag_info> find_tag_from(version least) const;
  /// The tag with the greatest time that is not after `time_ns` (of equal times, the greater version); empty if none.
  [[nodiscard]] std::optional<tag_info> find_tag_at_time(std::int64_t time_ns) const;

  // ---- The store itself --------------------------------------------------------------------------------------------

  /// Packs what was written (compaction.hpp) while any thread goes on to read and write. Writers are stopped for a
  /// moment at the end: the report says how long. Views, snapshots, cursors, queries and feeds that are open stay
  /// valid, and keep the space that they may look at: it is given back by the next call after they have ended, or by
  /// the next opening. So do readers beside this process, until they refresh(). Before it begins, the call gives back
  /// what the last one replaced, if nobody looks at it by now; an errc::io of that ends it. All up to the report's
  /// `up_to` is durable, as after sync(). With the index `persistent` the young generation then has an index in memory
  /// until the store is opened again. One call at a time; others wait. In a store that processes share, the process
  /// that opened it packs, and all others go on as its threads do. One that is attached asks it (within 50 ms), and
  /// waits for its report or error. compaction_options::threads are the opener's, `together` is refused. errc::closed
  /// if the opener closes the store meanwhile, errc::invalid_argument if it has ended. Functions that compact() calls
  /// cannot call it again: errc::invalid_argument.
  compaction_report compact(const compaction_options& how = {});
  /// Automatic compaction (options::compaction) rests until it is resumed: at once, or when the extent that is being
  /// made is written. Nothing happens if the store has none. compact() waits for one that rests amid its work.
  /// errc::read_only; errc::invalid_argument in a process that is attached: it is paused where the store was opened.
  void pause_compaction();
  void resume_compaction();

  [[nodiscard]] durability_info durability() const;
  /// Writers wait for a few microseconds.
  [[nodiscard]] statistics stats() const;
  [[nodiscard]] bool read_only() const;
  /// Whether it was opened for reading and other processes may write it meanwhile.
  [[nodiscard]] bool beside_writer() const;
  [[nodiscard]] const std::filesystem::path& path() const;

  /// Checks every structure of the open store against its checksums and against the other structures. Readers and
  /// writers may go on; it may or may not check what they write meanwhile. O(bytes of the store).
  [[nodiscard]] verify_report verify(const progress_function& on_progress = {}) const;

  /// For the library and its tests: what is open, and its engine of this moment, which a compaction replaces.
  [[nodiscard]] detail::opened_store& opened() const;
  [[nodiscard]] const detail::store_core& core() const;

 private:
  std::unique_ptr<detail::opened_store> opened_;
};

/// Memory of the whole process in huge pages now, bytes; 0 if the kernel hides it. The kernel counts the process's
/// pages meanwhile, which takes milliseconds.
[[nodiscard]] std::uint64_t process_huge_page_bytes();

/// Checks a store file that may be too damaged to open; changes nothing. If a crash left the store open, it reads only
/// the records, but not the persistent index, the entries' heads and the list of tags; store::verify reads these too.
/// Beside a process that writes the store it reads what was settled when it began, without these three: a record is
/// damaged if a settled one lies behind it in its segment, or if the root certifies it.
/// Throws only when there is nothing to check (errc::no_such_store, not_a_store, locked, permission, io;
/// invalid_argument, missing_file: `moved` names none of the store's files).
/// `moved`: where the secondary files are, if they are not where the store expects them.
[[nodiscard]] verify_report verify_file(const std::filesystem::path& path, const progress_function& on_progress = {},
                                        const std::vector<placement>& moved = {});

struct repair_options {
  std::filesystem::path from{};     ///< the damaged store; it is not changed
  std::filesystem::path to{};       ///< the new store; nothing may be at this path
  progress_function on_progress{};  ///< empty: no progress reports
  /// The secondary files of the new store, as in options.
  std::vector<placement> placements{};
  /// Where the secondary files of the damaged store are, if they are not where it expects them or if the root of its
  /// first file is lost. The contents of missing files are lost.
  std::vector<placement> moved{};
  /// What ended the last session of the damaged store, if the store does not show it, as in options.
  crash_kind crash = crash_kind::unknown;
};

/// Writes everything intact of a store to a new one: every version of every key, the tags with names, notes and times,
/// the same kind of index, the same open version. The new store gets its name only when it is complete and durable.
/// Where a record is lost, the new store has no value; it never shows an older value instead (docs/guarantees.md). If
/// the store's writer died, repair takes what opening would show, even if the file is a copy.
/// Errors: errc::store_exists if something is at `to`; damaged if the store is beyond recognition; the errors of
/// opening one store for reading and of writing another. After an error nothing is at `to`. Cost: O(n log n) in the
/// records, 24 bytes of memory for each.
repair_report repair(const repair_options& how);

}  // namespace icecore
