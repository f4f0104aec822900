// An ordered map that never forgets.
//
//   icecore::store s("model.ice");
//   s.insert("layer1/bias", "0.5");
//   icecore::version v = s.tag("epoch-1");
//   s.insert("layer1/bias", "0.7");
//   s.remove("layer1/bias");
//   s.find("layer1/bias", v);                        // "0.5", now and for ever
//   for (auto& [key, value] : s.at("epoch-1").range()) ...
//
// Threads: every function but close(), the destructor and moving may be called from any number of threads at once.
//   Finds and scans take no lock and never wait for a writer to publish; writers of different keys hardly ever wait for
//   each other. See docs/guarantees.md (G1 to G3).
// Durability: as opened; `durability()` tells what the device really gives.
// Lifetime: values, keys and snapshots are views into the pool, valid until the store is closed.
// Errors: icecore::error (error.hpp), std::bad_alloc. A write or tag that throws has not happened, unless the error is
//   errc::poisoned: then reopening tells.
// Cost: find O(log keys + log records of the key); insert the same plus one flushed record and one fence under
//   operation durability; tag O(1); at() nothing.
// Source: IPDPS 2022 (multi-version ordered dictionary, Table I).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/checkpoint.hpp"
#include "icecore/error.hpp"
#include "icecore/history.hpp"
#include "icecore/options.hpp"
#include "icecore/snapshot.hpp"
#include "icecore/version_ranges.hpp"

namespace [[gnu::visibility("default")]] icecore {

/// Inserts and removes that take effect at one instant: no reader and no crash ever sees a part of them.
/// Later operations on the same key win. Not for use by two threads at once; copies its keys and values.
class batch {
 public:
  void insert(std::string_view key, std::string_view value);  ///< errc::key_too_long, errc::value_too_large
  /// Removing a key that is not there changes nothing that finds, scans and histories show; `stats()` counts it, and
  /// `keys()` has the key.
  void remove(std::string_view key);
  void clear() noexcept { operations_.clear(); }
  [[nodiscard]] bool empty() const noexcept { return operations_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return operations_.size(); }

  struct operation {
    std::string key;
    std::optional<std::string> value;  ///< empty: remove
  };
  [[nodiscard]] const std::vector<operation>& operations() const noexcept { return operations_; }

 private:
  std::vector<operation> operations_;
};

/// What a tag carries besides its version.
struct tag_options {
  std::string_view name{};                ///< unique in the store, at most 65,535 bytes; empty: none
  std::string_view note{};                ///< at most 65,535 bytes
  std::optional<std::int64_t> time_ns{};  ///< nanoseconds since 1970-01-01 UTC; empty: now
};

class store {
 public:
  /// Opens the store at `path`, creating it unless options say otherwise. After a crash this recovers first: one
  /// parallel pass over the records.
  /// Errors: every errc of opening (see error.hpp); nothing is changed when it throws.
  explicit store(const std::filesystem::path& path, const options& opening = {});

  /// Closes, swallowing errors; call close() to learn of them.
  ~store();
  store(store&&) noexcept;
  store& operator=(store&&) noexcept;

  /// Makes everything durable, as the device can, and releases the file. No other call may be running.
  void close();
  [[nodiscard]] bool is_open() const noexcept { return core_ != nullptr; }

  // ---- Writing -----------------------------------------------------------------------------------------------------

  /// Sets the key's value in the open version and returns that version. Key at most 65,535 bytes, value at most
  /// 4 GiB - 1 bytes, any bytes; both are copied. errc::invalid_argument if 2^32 - 1 records of the key are there.
  version insert(std::string_view key, std::string_view value);

  /// Removes the key in the open version. Empty if the key was not there, else the version of the removal.
  std::optional<version> remove(std::string_view key);

  /// Applies all operations of the batch at one instant and returns the version they belong to.
  version apply(const batch& operations);

  /// Closes the open version and returns its number: from now on it is an immutable snapshot of all writes completed
  /// before. O(1). Under tag durability it returns when the snapshot is durable.
  version tag();
  /// The same, with a name, a note and a time, all kept. errc::tag_exists if the name is taken.
  version tag(std::string_view name, std::string_view note = {});
  version tag(const tag_options& label);

  /// Closes all versions below `open` at once, so that it is the open one; nothing if it is already, or closed. O(1).
  /// What copies a store version by version needs no tag for each version that nothing was written in. No other thread
  /// may write meanwhile. It is as durable as the next write.
  /// errc::invalid_argument if a store never reaches that version (it has 2^48 less some thousands).
  void skip_to(version open);

  /// Notes that the state of these closed versions is not known, as recovery does of what a power cut took: reading one
  /// is errc::version_lost from now on. Durable when it returns. For what copies a store; nobody else may use it
  /// meanwhile. errc::invalid_argument if one of them is not closed, or is 0. Cost: two syncs.
  void lose(const version_ranges& versions);

  /// Returns when all completed writes survive a power cut, as far as the medium can. Outside operation durability this
  /// closes the open version if anything was written in it: what a power cut goes back to is a version.
  void sync();

  /// All of the store as it is now, every version and tag, to be written to a file while writes go on. Closes the open
  /// version if anything was written in it. Cost: O(segments), for so long writers wait; nothing is copied yet.
  /// errc::invalid_argument in a process that is attached to the store.
  [[nodiscard]] icecore::checkpoint checkpoint() const;

  // ---- Reading -----------------------------------------------------------------------------------------------------

  /// The newest value.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view key) const;
  /// The value in a closed version. errc::version_not_closed if `at` >= clock(); errc::version_lost if a power cut took
  /// the version, here and wherever a version is read.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view key, version at) const;
  [[nodiscard]] bool contains(std::string_view key) const { return find(key).has_value(); }
  [[nodiscard]] bool contains(std::string_view key, version at) const { return find(key, at).has_value(); }

  /// Finds many keys at once, overlapping their memory accesses (several times the speed of single finds on large
  /// stores). out[i] answers keys[i]; errc::invalid_argument unless the sizes are equal.
  void find_many(std::span<const std::string_view> keys, version at,
                 std::span<std::optional<std::string_view>> out) const;
  /// The same with a version for each key.
  void find_many(std::span<const std::string_view> keys, std::span<const version> at,
                 std::span<std::optional<std::string_view>> out) const;

  /// The snapshot of a closed version. Costs nothing. errc::version_not_closed, version_lost, unknown_tag. In a store
  /// opened for reading clock() itself may be read too: nobody writes; but a later writer may still add to it.
  [[nodiscard]] snapshot at(version closed) const;
  [[nodiscard]] snapshot at(std::string_view tag_name) const;
  [[nodiscard]] snapshot at(const char* tag_name) const { return at(std::string_view(tag_name)); }
  [[nodiscard]] snapshot at(std::chrono::system_clock::time_point time) const;

  /// The present: closes the open version, if anything was written in it (without making it durable), and returns the
  /// newest closed one. O(1). On a store opened for reading it is all there is.
  [[nodiscard]] snapshot latest() const;

  /// All records of the key. Empty if it was never inserted.
  [[nodiscard]] key_history history(std::string_view key) const;

  /// Every key ever written between the bounds, removed ones too, in key order: views into the pool. With the
  /// persistent index also those of a batch that a kill has kept from happening: their history is empty. O(keys).
  [[nodiscard]] std::vector<std::string_view> keys(const key_bounds& bounds = {}) const;

  /// What changed from one closed version to another, in key order.
  [[nodiscard]] diff_range diff(version before, version after, key_bounds bounds = {}) const;

  // ---- Tags and versions -------------------------------------------------------------------------------------------

  /// The version that a write now belongs to; all smaller ones are closed.
  [[nodiscard]] version clock() const;
  /// The closed versions that power cuts took, numbers that were skipped then included: reading one of them is
  /// errc::version_lost, for ever.
  [[nodiscard]] const version_ranges& lost_versions() const;
  /// Named and timed tags, oldest version first.
  [[nodiscard]] std::vector<tag_info> tags() const;
  /// The tag of this name, or of this version; empty if none.
  [[nodiscard]] std::optional<tag_info> find_tag(std::string_view name) const;
  [[nodiscard]] std::optional<tag_info> find_tag(version tagged) const;
  /// The first tag of this version or a later one; empty if none. For reading them one by one.
  [[nodiscard]] std::optional<tag_info> find_tag_from(version least) const;
  /// The tag with the greatest time that is not after `time_ns` (the greater version of equals); empty if none.
  [[nodiscard]] std::optional<tag_info> find_tag_at_time(std::int64_t time_ns) const;

  // ---- The store itself --------------------------------------------------------------------------------------------

  [[nodiscard]] durability_info durability() const;
  [[nodiscard]] statistics stats() const;
  [[nodiscard]] bool read_only() const;
  [[nodiscard]] const std::filesystem::path& path() const;

  /// Checks every structure of the open store against its checksums and against each other. Runs beside readers and
  /// writers; what is written meanwhile may or may not be looked at. O(bytes of the store).
  [[nodiscard]] verify_report verify(const progress_function& on_progress = {}) const;

  [[nodiscard]] const detail::store_core& core() const;

 private:
  detail::store_core& writable() const;

  std::unique_ptr<detail::store_core> core_;
};

/// Checks a store file that may be too damaged to open; changes nothing. Of a store that a crash left open it reads the
/// records, not the persistent index, the entries' heads and the list of tags: store::verify does. Throws only when
/// there is nothing to check (errc::no_such_store, not_a_store, locked, permission, io; invalid_argument,
/// missing_file: `moved` names none of its files).
/// `moved`: where further files are, if they are not where the store knows them.
[[nodiscard]] verify_report verify_file(const std::filesystem::path& path, const progress_function& on_progress = {},
                                        const std::vector<placement>& moved = {});

struct repair_options {
  std::filesystem::path from{};     ///< the damaged store; it is not changed
  std::filesystem::path to{};       ///< the new one; nothing may be there
  progress_function on_progress{};  ///< empty: silence
  /// The further files of the new store, as in options.
  std::vector<placement> placements{};
  /// Where further files of the damaged store are, if they are not where it knows them, or its first file's root is
  /// lost. What is in files that are not there is lost.
  std::vector<placement> moved{};
  /// What ended the last session of the damaged store, where nothing tells it, as in options.
  crash_kind crash = crash_kind::unknown;
};

/// Writes all that is intact of a store to a new one: every version of every key, tags with names, notes and times, the
/// same index, the same open version. The new store has its name only when it is whole and durable. What a lost record
/// showed is not there in it: never an older value in its place (docs/guarantees.md). Of a store whose writer died it
/// takes what opening would give, of a copy too.
/// Errors: errc::store_exists if something is at `to`; damaged if nothing can be told apart any more; those of opening
/// one store for reading and of writing another. Nothing is at `to` then.
/// Cost: O(n log n) in the records, 24 bytes of memory for each.
repair_report repair(const repair_options& how);

}  // namespace icecore
