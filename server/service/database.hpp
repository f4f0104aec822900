// One database of the server: an ordered map that keeps every version, with a name and a version rule. It knows no
// protocol.
//
//   std::shared_ptr<database> db = s.find_database(who, "weights");
//   db->write(std::move(changes), [](result<outcome> done) { ... });      // answers when it is durable as promised
//   std::optional<found> value = db->find("layer1/bias", newest{});
//
// Version rules decide what closes versions:
//   write: each transaction that writes is a version of its own. The applier, one thread at a time, executes the
//     transactions of a database in their order; one sync makes a group of them durable. All reads are at the newest
//     version that is durable, if the database promises that: they show nothing that could vanish, and wait for nobody.
//   every: a timer closes the open version if something was written in it.
//   tag: only clients close versions.
//   Under `every` and `tag` the calling threads write themselves; what reads before it writes takes locks by key.
//   Reading the whole present there (a scan, a watch from now on) closes the open version too.
//
// Guarantees: the operations of a database are linearizable, whichever doors they come from. What was acknowledged, or
//   has been read, survives as the database's durability promises. A watch tells every change after a version, each
//   once, in order.
// Threads: any number may call any function at once. write() never waits for a device; under `every` and `tag` with
//   operation durability on a block device, a read of the present may wait for one sync.
// Lifetime: whoever holds the pointer may go on; after close() or a drop, all calls fail with errc::unavailable. Rows
//   and values that were read stay valid.
// Errors: icecore::error, those of a store; and version_expired, no_such_lease, limit_reached, unavailable, no_space
//   (the quota is reached, or the device is full; removals go on). If a sync fails, the database is poisoned: all
//   its calls, reads too, fail with errc::poisoned until it is opened again, as those of the store do.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "icecore/checkpoint.hpp"
#include "icecore/options.hpp"
#include "icecore/snapshot.hpp"
#include "icecore/store.hpp"
#include "icecore/value.hpp"
#include "service/point.hpp"
#include "service/rows.hpp"
#include "service/transaction.hpp"

namespace icecore::service {

enum class version_rule : std::uint8_t { write, every, tag };
enum class value_compression : std::uint8_t { none, zstd };

/// What a database is made with. The name has 1 to 255 bytes of letters, digits and "._-", and begins with none of the
/// last three.
struct database_settings {
  std::string name{};
  std::string owner{};  ///< the user who made it: empty where there are no users
  version_rule rule = version_rule::every;
  std::chrono::milliseconds interval{1000};  ///< of the rule `every`: 1 ms to 1 day
  icecore::durability durability = icecore::durability::best_available;
  icecore::index_kind index = icecore::index_kind::persistent;
  value_compression compression = value_compression::none;
  std::uint64_t quota_bytes = 0;  ///< of the store's records; 0: none
};

/// What changes without making the database anew.
struct changed_settings {
  std::optional<version_rule> rule;
  std::optional<std::chrono::milliseconds> interval;
  std::optional<std::uint64_t> quota_bytes;
  std::optional<std::string> owner;
};

/// A value that a find returned. Its bytes are valid as long as it lives.
class found {
 public:
  found(icecore::value bytes, icecore::version version) : bytes_(std::move(bytes)), version_(version) {}
  found(std::string bytes, icecore::version version) : bytes_(std::move(bytes)), version_(version) {}
  [[nodiscard]] std::string_view value() const noexcept {
    return std::visit([](const auto& bytes) -> std::string_view { return bytes; }, bytes_);
  }
  /// Of the record that holds the value.
  [[nodiscard]] icecore::version version() const noexcept { return version_; }

 private:
  std::variant<icecore::value, std::string> bytes_;
  icecore::version version_;
};

struct scan_request {
  icecore::key_bounds bounds{};
  point at = newest{};
  bool reverse = false;
  std::uint64_t limit = 0;  ///< rows; 0: all
  bool values = true;
  bool versions = false;  ///< of each row's record: costs another look-up a row
};

struct difference_request {
  icecore::version before = 0;
  point after = newest{};
  icecore::key_bounds bounds{};
};

struct changes_request {
  icecore::version after = 0;  ///< all that was written in later versions ...
  point up_to = newest{};      ///< ... up to this one: by version, then by key
  icecore::key_bounds bounds{};
  bool before = false;  ///< the values before, too
};

/// What a watch told since the call before. Changes of one version may come in several parts; `told` says which
/// versions are complete.
struct watched {
  row_block changes;
  icecore::version told = 0;  ///< all changes of all versions up to this one are told
};
struct watch_request {
  std::optional<icecore::version> after{};  ///< empty: the newest version
  icecore::key_bounds bounds{};
  bool before = false;
};

/// A watch. Threads: one at a time, and arm()'s function comes from any thread.
class watch {
 public:
  watch() = default;
  watch(const watch&) = delete;
  watch& operator=(const watch&) = delete;
  virtual ~watch() = default;
  /// The next changes, if there are any, in the order of the versions. Never waits. `told` of an empty answer is the
  /// progress: nothing between the bounds was written up to it.
  virtual watched next(const block_limits& limits) = 0;
  /// Calls `wake` once, when next() may have more (perhaps at once, within this call) or the database ends. It may
  /// still be called while, or just after, the watch ends: it keeps alive what it uses.
  virtual void arm(std::function<void()> wake) = 0;
};

struct lease_info {
  lease_number number;
  std::chrono::milliseconds granted;
  std::chrono::milliseconds left;
  std::vector<std::string> keys;  ///< if asked for
};

struct database_status {
  database_settings settings;
  icecore::statistics statistics;
  icecore::version newest;     ///< what a read of the present shows at least
  icecore::version durable;    ///< the newest version that a power cut would keep, as far as is known
  icecore::version compacted;  ///< older versions are given up
  std::uint64_t leases;
  std::uint64_t watches;
  std::uint64_t waiting;        ///< transactions that wait for the applier or a sync
  std::optional<failure> sick;  ///< why it is not served, or only read
};

/// A database at one instant: while it lives, no write takes effect there, at no server of a dependent group.
class held_still {
 public:
  held_still() = default;
  held_still(const held_still&) = delete;
  held_still& operator=(const held_still&) = delete;
  virtual ~held_still() = default;
  /// The database as it is, for a file. O(segments).
  [[nodiscard]] virtual icecore::checkpoint take() = 0;
  /// What take() gave can be written as long as the result lives, even if the database is closed meanwhile. Null: only
  /// as long as the database is open.
  [[nodiscard]] virtual std::shared_ptr<const void> keep() { return nullptr; }
};

class executor;

/// What the service gives to each of its databases; it outlives them.
struct database_environment {
  executor* pool = nullptr;  ///< for tasks that wait for nothing but devices
  std::function<bool()> device_has_room = [] { return true; };
  std::uint64_t leases_most = 1'000'000;
  refusals* refused = nullptr;  ///< counts what is refused; null: nobody does
  gauge* memory = nullptr;      ///< for what is done on behalf of another server's request; null: it takes nothing
};

class database {
 public:
  database() = default;
  database(const database&) = delete;
  database& operator=(const database&) = delete;
  virtual ~database() = default;

  [[nodiscard]] virtual database_settings settings() const = 0;
  [[nodiscard]] virtual database_status status() const = 0;

  // ---- Writing ----
  /// Executes the transaction. Calls `done` when it is as durable as the database promises.
  virtual void write(transaction what, completion done) = 0;
  /// Sets one key where that is all there is to do: nothing is waited for, and no other thread has to answer. Returns
  /// the version that the write belongs to; empty if nothing was done, and write() has to be called. Fails as write().
  virtual std::optional<icecore::version> put_at_once(std::string_view /*key*/, std::string_view /*value*/) {
    return std::nullopt;
  }
  /// Whether write() with this key first waits for nobody, so that a thread which serves many may call it.
  [[nodiscard]] virtual bool writes_at_once(std::string_view key) const noexcept = 0;
  /// Whether write() only hands the transaction to threads of the database: then it waits for no lock that is held
  /// while a device is written, and for no other server.
  [[nodiscard]] virtual bool queues_writes() const noexcept = 0;
  /// For one key, without answers: the fast path of bulk loading. All rows take effect, not at one instant. A key that
  /// is there keeps its value if `keep`. Returns how many were written; waits for durability.
  virtual std::uint64_t load(const row_block& rows, bool keep) = 0;
  /// Returns when all writes that were acknowledged before the call are durable, in any mode.
  virtual void sync() = 0;

  // ---- Reading ----
  /// The version that a read at this point shows. For `newest` a version that holds everything acknowledged before the
  /// call. errc::version_expired, version_not_closed, version_lost, unknown_tag.
  virtual icecore::version resolve(const point& at) = 0;
  virtual std::optional<found> find(std::string_view key, const point& at) = 0;
  /// Whether find() waits for nobody, neither a device nor another server.
  [[nodiscard]] virtual bool finds_at_once(std::string_view key, const point& at) const noexcept = 0;
  [[nodiscard]] virtual std::unique_ptr<row_stream> scan(const scan_request& what) = 0;
  /// Newest first. The versions of the rows are those of the records; the key is not repeated.
  [[nodiscard]] virtual std::unique_ptr<row_stream> history(std::string_view key, const point& up_to) = 0;
  [[nodiscard]] virtual std::unique_ptr<row_stream> differences(const difference_request& what) = 0;
  [[nodiscard]] virtual std::unique_ptr<row_stream> changes(const changes_request& what) = 0;
  virtual std::uint64_t count(const icecore::key_bounds& bounds, const point& at) = 0;
  [[nodiscard]] virtual std::unique_ptr<watch> watch_changes(const watch_request& what) = 0;

  // ---- Tags and versions ----
  /// Closes the open version; the tag is durable when the call returns, as the database promises.
  virtual icecore::version tag(const icecore::tag_options& label) = 0;
  [[nodiscard]] virtual std::vector<icecore::tag_info> tags() = 0;
  [[nodiscard]] virtual std::optional<icecore::tag_info> find_tag(const point& at) = 0;
  /// Gives up the versions before this one: reading them is errc::version_expired from now on. What they alone hold is
  /// given back when the engine can.
  virtual void compact(icecore::version oldest_kept) = 0;

  // ---- Leases ----
  /// `wanted`: the number, or 0 for one that is free. 1 s to 10 years.
  virtual lease_info grant(std::chrono::milliseconds time, lease_number wanted) = 0;
  /// Begins the lease's time anew.
  virtual lease_info keep_alive(lease_number lease) = 0;
  /// Ends the lease and removes its keys, if `may_remove` throws for none of them: it is called while no key can come
  /// to the lease or leave it, on any thread. Empty: all may be removed.
  virtual void revoke(lease_number lease, std::function<void(std::string_view key)> may_remove, completion done) = 0;
  [[nodiscard]] virtual lease_info lease(lease_number lease, bool keys) = 0;
  [[nodiscard]] virtual std::vector<lease_number> leases() = 0;

  // ---- The whole ----
  virtual void change(const changed_settings& what) = 0;
  /// For a checkpoint of this database, or of several at one instant. In a dependent group every server calls hold(),
  /// and then take() once, while an order is executed; each takes its own part.
  [[nodiscard]] virtual std::unique_ptr<held_still> hold() = 0;
  /// Why it is not served as it should be, if so.
  [[nodiscard]] virtual std::optional<failure> sickness() const { return std::nullopt; }
  [[nodiscard]] virtual icecore::verify_report verify(const icecore::progress_function& on_progress) = 0;
  /// Answers what waits, makes everything durable and closes the files. Later calls fail with errc::unavailable.
  virtual void close() = 0;

  /// Whether it was dropped: who has found it by its name looks for the name anew, which may be another one's now.
  [[nodiscard]] bool is_dropped() const noexcept { return dropped_.load(std::memory_order_acquire); }
  void set_dropped() noexcept { dropped_.store(true, std::memory_order_release); }

 private:
  // Release when its name has been given up, acquire by whoever then looks for the name.
  std::atomic<bool> dropped_{false};
};

}  // namespace icecore::service
