// A store on a server: the client of icecore-server over UCX, modelled on icecore::store and icecore::snapshot.
//
//   icecore::remote::client c("ucx://node7:4711", {.token = token});
//   icecore::remote::store s = c.create("weights", {.rule = icecore::remote::version_rule::tag});
//   s.insert("layer1/bias", "0.5");
//   s.tag("epoch-1");
//   s.insert("layer1/bias", "0.7");
//   s.find("layer1/bias", "epoch-1");                                   // "0.5"
//   for (const auto& [key, value] : s.at("epoch-1").range()) ...
//   auto a = s.start_insert("a", "1"), b = s.start_insert("b", "2");    // both are under way
//   a.wait(); b.wait();
//
// Several servers: "ucx://a:1,b:2". Dependent ones (the default) are one database, and any of them answers. Independent
// ones know nothing of each other: this client finds a key's server by a hash. A list in which a server is missing, too
// many, or at another place is errc::other_cluster. Their versions have nothing to do with each other: read several of
// them at a tag's name, and one key at the version that its own insert returned.
//
// Threads: any number may call any function of a client, a store or a snapshot at once; ranges, watches and pending
//   results belong to one thread at a time. Not usable in a child process after fork.
// Consistency and durability: those of the server's database. A call that has returned is acknowledged.
// A broken connection is made again, and what was asked is repeated if that is harmless: reads, insert(), remove(),
//   insert_many(), sync(), compact(). A removal that was repeated may say that the key was not there. What is not
//   harmless (insert_new, replace, apply, update, append, increment, tag, create, drop) fails with
//   errc::outcome_unknown: it has taken effect or not, once at most.
// Deadlines: each call has options::deadline, or that of with_deadline(). errc::deadline_exceeded: a write may still
//   take effect.
// Lifetime: stores, snapshots, ranges and watches keep their connection alive. Values own their bytes; what a range
//   refers to is valid until it goes on.
// Errors: icecore::error, with the server's own codes; unavailable, deadline_exceeded, outcome_unknown, cancelled,
//   denied, unauthenticated, other_cluster. std::bad_alloc.
// Cost: one message each way; scans have two blocks of 256 KiB under way for each server, up to eight while they go on.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "icecore/error.hpp"
#include "icecore/options.hpp"
#include "icecore/range_iterator.hpp"
#include "icecore/snapshot.hpp"
#include "icecore/store.hpp"

namespace [[gnu::visibility("default")]] icecore {
namespace remote {

namespace detail {
class session;
class database;
class operation;
class row_merge;
class watch_state;
}  // namespace detail

/// How the servers of the list belong together. Dependent: one group, of which any server answers any request; the list
/// may name some of them, and the client learns of all and asks a key's owner itself. One server alone, too.
/// Independent: each has the keys that a hash gives it; the list names all, in the order of their numbers.
enum class grouping : std::uint8_t { dependent, independent };

struct options {
  std::string token{};     ///< of the job, at least 8 bytes, as the server has it
  std::string user{};      ///< where the server has users
  std::string password{};  ///< or a log-in's token, with an empty user
  std::string name{};      ///< of this program, for the server's log
  remote::grouping grouping = grouping::dependent;
  std::string group{};                             ///< the name that the servers must have; empty: any
  std::chrono::milliseconds deadline{30'000};      ///< of each call
  std::chrono::milliseconds connect_limit{5'000};  ///< of one attempt to connect
  std::string network_devices{};                   ///< for UCX, in its words ("eth0"); empty: all
};

enum class version_rule : std::uint8_t { server_default, write, every, tag };
enum class compression : std::uint8_t { server_default, none, zstd };

/// What a database is made with. Empty optionals and server_default: as the server's configuration says.
struct settings {
  version_rule rule = version_rule::server_default;
  std::chrono::milliseconds interval{0};  ///< of the rule `every`
  std::optional<icecore::durability> durability{};
  std::optional<icecore::index_kind> index{};
  remote::compression compression = compression::server_default;
  std::uint64_t quota_bytes = 0;  ///< 0: none
};
struct database_info {
  std::string name;
  std::string owner;
  remote::settings settings;
};
struct database_status {
  database_info info;
  version newest, durable, compacted;
  std::uint64_t keys, records, tags, used_bytes, file_bytes, leases, watches, waiting;
  std::string medium;
  std::string sick;  ///< why it is not served, or only read; empty: all is well
};

/// A value that was read: its bytes, and the version of the record that holds it.
class value {
 public:
  value(std::string bytes, icecore::version version) noexcept : bytes_(std::move(bytes)), version_(version) {}
  [[nodiscard]] std::string_view bytes() const noexcept { return bytes_; }
  operator std::string_view() const& noexcept { return bytes_; }  // NOLINT(google-explicit-constructor)
  operator std::string_view() const&& = delete;                   // the view would outlive the value: name it first
  [[nodiscard]] std::string take() && noexcept { return std::move(bytes_); }
  [[nodiscard]] icecore::version version() const noexcept { return version_; }
  friend bool operator==(const value& a, std::string_view b) noexcept { return a.bytes_ == b; }

 private:
  std::string bytes_;
  icecore::version version_;
};

/// How an update of a part of a value treats what is there. `size` is that of the value that is there.
enum class update_rule : std::uint8_t {
  in_place,        ///< the key must be there, and offset + length <= size; else too_large
  expand,          ///< in place if it fits; grows the value from offset >= size (zeros between); else overlap
  expand_overlap,  ///< in place if it fits, grows the value else (zeros between)
  replace_from,    ///< the key must be there, offset <= size: the new size is offset + length; else too_large
  append,          ///< behind the end, or as a new value
};
struct part_rule {
  update_rule rule = update_rule::in_place;
  std::uint64_t offset = 0;
  bool or_put = false;  ///< a key that is not there is put, with zeros up to the offset
};
/// What became of an update or an increment. All but `done`: nothing has changed.
enum class update_state : std::uint8_t { done, absent, exists, too_large, overlap, no_number };
struct update_result {
  update_state is = update_state::done;
  icecore::version version = 0;
  std::uint64_t size = 0;   ///< of the value after an update
  std::int64_t number = 0;  ///< after an increment
};

using lease_number = std::uint64_t;
struct lease_info {
  lease_number number;
  std::chrono::milliseconds granted, left;
  std::vector<std::string> keys;  ///< if asked for
};
/// A change that a watch told. `before` only if it was asked for.
struct watched_change {
  std::string key;
  icecore::version version;
  std::optional<std::string> value;   ///< empty: the key was removed
  std::optional<std::string> before;  ///< empty: it was not there
};

/// A write that happened between two versions.
struct key_change {
  std::string_view key;
  icecore::version version;
  std::optional<std::string_view> value;  ///< empty: the key was removed
  friend bool operator==(const key_change&, const key_change&) = default;
};

/// A result that is under way. wait(), wait_for() and test() also repeat what a broken connection has lost, if that is
/// harmless, so they may have to connect. An object that ends before its result is there leaves the operation running.
template <class Result>
class pending {
 public:
  using reader = Result (*)(std::span<const std::byte>);
  pending(std::shared_ptr<detail::operation> under_way, reader read) noexcept
      : under_way_(std::move(under_way)), read_(read) {}

  /// The result. A second call is errc::invalid_argument.
  Result wait();
  /// Whether the result is there, within the time.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds limit);
  /// Whether the result is there. Never waits for an answer.
  [[nodiscard]] bool test();
  /// wait() then fails with errc::cancelled, unless the result is there; a write may still take effect.
  void cancel();

 private:
  std::shared_ptr<detail::operation> under_way_;
  reader read_;
};

/// Rows as they are walked: a C++ input range of icecore::item, change, difference, or key_change. It must stay in its
/// place while it is iterated.
template <class Row>
class row_range {
 public:
  using iterator = range_iterator<row_range, Row>;
  explicit row_range(std::shared_ptr<detail::row_merge> rows);
  [[nodiscard]] iterator begin() & { return iterator(this); }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  friend iterator;
  void step();
  [[nodiscard]] bool at_end() const noexcept { return !row_; }
  [[nodiscard]] const Row& current() const noexcept { return *row_; }
  void load();

  std::shared_ptr<detail::row_merge> rows_;
  std::optional<Row> row_;
};
using item_range = row_range<icecore::item>;
using history_range = row_range<icecore::change>;
using difference_range = row_range<icecore::difference>;
using change_range = row_range<key_change>;

/// A closed version of a database. Free: nothing is kept on the server, so compact() may end it (version_expired).
class snapshot {
 public:
  snapshot(std::shared_ptr<detail::database> of, std::vector<icecore::version> versions,
           std::chrono::milliseconds deadline) noexcept;

  [[nodiscard]] std::optional<remote::value> find(std::string_view key) const;
  [[nodiscard]] bool contains(std::string_view key) const { return find(key).has_value(); }
  [[nodiscard]] std::vector<std::optional<remote::value>> find_many(std::span<const std::string_view> keys) const;
  /// The keys between the bounds with their values, in key order, or from the last to the first.
  [[nodiscard]] item_range range(const key_bounds& bounds = {}) const;
  [[nodiscard]] item_range reversed(const key_bounds& bounds = {}) const;
  [[nodiscard]] item_range prefix(std::string_view prefix) const { return range(key_bounds::of_prefix(prefix)); }
  [[nodiscard]] std::uint64_t count(const key_bounds& bounds = {}) const;
  [[nodiscard]] std::uint64_t size() const { return count(); }
  /// errc::invalid_argument of several independent servers.
  [[nodiscard]] icecore::version version() const;
  [[nodiscard]] const std::vector<icecore::version>& versions() const noexcept { return versions_; }

 private:
  std::shared_ptr<detail::database> of_;
  std::vector<icecore::version> versions_;  // one for each server that has a part
  std::chrono::milliseconds deadline_;
};

struct watch_request {
  std::optional<version> after{};  ///< changes of later versions; empty: what comes
  key_bounds bounds{};
  bool before = false;  ///< the values before, too
  /// In place of `after`, a version of each server that has a part: snapshot::versions(), or a batch's told_each.
  std::vector<version> after_each{};
};
/// Each change after a version, once, in the order of the versions, then of the keys, across broken connections. Of
/// several independent servers each tells its changes in that order; those of one key come in their order.
class watch {
 public:
  explicit watch(std::shared_ptr<detail::watch_state> state) noexcept : state_(std::move(state)) {}
  struct batch {
    std::vector<watched_change> changes;
    version told = 0;  ///< all changes of the versions up to this one are told: where another watch may go on
    std::vector<version> told_each{};  ///< the same of each server that has a part; of several, `told` is 0
  };
  /// What came since the call before. Waits for changes at most so long; then the batch has none.
  [[nodiscard]] batch next(std::chrono::milliseconds wait);

 private:
  std::shared_ptr<detail::watch_state> state_;
};

class store {
 public:
  store(std::shared_ptr<detail::database> of, std::chrono::milliseconds deadline) noexcept;
  /// The same database, with another deadline for each call.
  [[nodiscard]] store with_deadline(std::chrono::milliseconds deadline) const noexcept { return {of_, deadline}; }
  [[nodiscard]] const std::string& name() const noexcept;
  /// Of several servers, independent or dependent: what one of them tells. Keys, records, bytes and watches are those
  /// of its own part, and so is what is sick.
  [[nodiscard]] database_status status() const;

  // ---- Writing ----
  /// `lease`: the key ends with it.
  version insert(std::string_view key, std::string_view value, lease_number lease = 0);
  std::optional<version> remove(std::string_view key);
  std::optional<version> insert_new(std::string_view key, std::string_view value);
  std::optional<version> replace(std::string_view key, std::string_view value, version expected);
  version apply(const batch& operations);
  /// Of independent servers, all keys of a batch must belong to one: else errc::not_owner.
  std::optional<version> apply_if(const batch& operations);
  update_result update(std::string_view key, std::string_view part, const part_rule& how);
  update_result append(std::string_view key, std::string_view part) {
    return update(key, part, {.rule = update_rule::append, .or_put = true});
  }
  update_result increment(std::string_view key, std::int64_t by = 1);
  /// Many keys, fast, not at one instant; returns how many were written. `keep`: keys that are there keep their values.
  std::uint64_t insert_many(std::span<const item> items, bool keep = false);
  void sync();

  // ---- Asynchronous forms: any number may be under way ----
  [[nodiscard]] pending<version> start_insert(std::string_view key, std::string_view value, lease_number lease = 0);
  [[nodiscard]] pending<std::optional<version>> start_insert_new(std::string_view key, std::string_view value);
  [[nodiscard]] pending<std::optional<version>> start_remove(std::string_view key);
  [[nodiscard]] pending<std::optional<remote::value>> start_find(std::string_view key);
  [[nodiscard]] pending<update_result> start_update(std::string_view key, std::string_view part, const part_rule& how);
  [[nodiscard]] pending<update_result> start_increment(std::string_view key, std::int64_t by = 1);

  // ---- Reading ----
  [[nodiscard]] std::optional<remote::value> find(std::string_view key) const;
  [[nodiscard]] std::optional<remote::value> find(std::string_view key, version at) const;
  [[nodiscard]] std::optional<remote::value> find(std::string_view key, std::string_view tag) const;
  [[nodiscard]] std::optional<remote::value> find(std::string_view key, const char* tag) const {
    return find(key, std::string_view(tag));
  }
  [[nodiscard]] bool contains(std::string_view key) const { return find(key).has_value(); }
  [[nodiscard]] std::vector<std::optional<remote::value>> find_many(std::span<const std::string_view> keys) const;
  [[nodiscard]] snapshot at(version closed) const;
  [[nodiscard]] snapshot at(std::string_view tag) const;
  [[nodiscard]] snapshot at(const char* tag) const { return at(std::string_view(tag)); }
  [[nodiscard]] snapshot at(std::chrono::system_clock::time_point time) const;
  /// The present: everything that was acknowledged before the call.
  [[nodiscard]] snapshot latest() const;
  /// All records of the key, newest first.
  [[nodiscard]] history_range history(std::string_view key) const;
  // Of several independent servers a version's number is errc::invalid_argument, since those of one mean nothing to
  // others: snapshots have a version of each.
  [[nodiscard]] difference_range diff(version before, version after, const key_bounds& bounds = {}) const;
  /// All that was written in the versions after `after` up to `up_to`, by version, then by key.
  [[nodiscard]] change_range changes(version after, version up_to, const key_bounds& bounds = {}) const;
  /// In key order, from whichever servers.
  [[nodiscard]] difference_range diff(const snapshot& before, const snapshot& after,
                                      const key_bounds& bounds = {}) const;
  /// Of several servers by number of version, then by key: so the changes of one key are in their order.
  [[nodiscard]] change_range changes(const snapshot& after, const snapshot& up_to, const key_bounds& bounds = {}) const;
  [[nodiscard]] remote::watch watch(const watch_request& what = {}) const;

  // ---- Tags and versions ----
  /// Closes the open version. Of independent servers each closes its own, one after the other; what is returned is
  /// the first one's.
  version tag(std::string_view name = {}, std::string_view note = {});
  /// Both: of independent servers, those of the first one, with its versions; at(tag) finds the version of each.
  [[nodiscard]] std::vector<tag_info> tags() const;
  [[nodiscard]] std::optional<tag_info> find_tag(std::string_view name) const;
  /// Gives up the versions before this one.
  void compact(version oldest_kept);
  /// The same at each server.
  void compact(const snapshot& oldest_kept);

  // ---- Leases ----
  // A dependent group of several servers keeps none (errc::invalid_argument). Of independent servers each keeps the
  // lease for its own keys, by its own clock: what is told is the least of the times. If some servers do not answer,
  // the call fails, and the others have done it; a lease that could not be granted by all is taken back.
  lease_info grant_lease(std::chrono::milliseconds time, lease_number wanted = 0);
  lease_info keep_lease(lease_number lease);
  /// Ends the lease and removes its keys; how many.
  std::uint64_t revoke_lease(lease_number lease);
  [[nodiscard]] lease_info lease(lease_number lease, bool keys = false) const;
  [[nodiscard]] std::vector<lease_number> leases() const;

 private:
  std::shared_ptr<detail::database> of_;
  std::chrono::milliseconds deadline_;
};

class client {
 public:
  /// Connects to all servers of the list.
  explicit client(std::string_view address, const remote::options& opening = {});

  /// errc::database_exists if there is one of this name.
  store create(std::string_view name, const settings& with = {});
  /// errc::denied if there is none, or no right to it.
  [[nodiscard]] store open(std::string_view name);
  void drop(std::string_view name);
  [[nodiscard]] std::vector<database_info> list() const;
  /// A checkpoint of all databases, at one instant of each server, in a new folder of the server (of independent ones,
  /// each in its own: the folder's name with ".0", ".1" ...).
  void write_snapshot(std::string_view folder);
  [[nodiscard]] std::size_t servers() const noexcept;

 private:
  std::shared_ptr<detail::session> session_;
};

}  // namespace remote
}  // namespace icecore
