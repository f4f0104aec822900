// What each operation asks, as data. A struct has `number`, the operation that it belongs to.
//
//   byte_buffer payload = encoded(get_request{.key = "a"});
//   server.start(get_request::number, database, std::move(payload), done, deadline);
//
// Requests that have a view beside them can be written from bytes that are elsewhere, without a copy.
// Threads: plain data. Errors: reading gives false (codec.hpp). The service, not the codec, checks what the fields
// mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wire/messages/database_settings.hpp"
#include "wire/messages/operation.hpp"

namespace icecore::wire {

/// A request that consists of its operation alone.
template <operation_number Number>
struct bare_request {
  static constexpr operation_number number = Number;
  static bool each(auto& /*self*/, auto&& /*f*/) { return true; }
};
using status_request = bare_request<operation_number::status>;
using group_request = bare_request<operation_number::group>;
using close_database_request = bare_request<operation_number::close_database>;
using list_databases_request = bare_request<operation_number::list_databases>;
using describe_database_request = bare_request<operation_number::describe_database>;
using list_tags_request = bare_request<operation_number::list_tags>;
using sync_request = bare_request<operation_number::sync>;
using list_leases_request = bare_request<operation_number::list_leases>;

/// Writes a checkpoint of all databases into a folder of the server that is not there yet.
struct snapshot_request {
  static constexpr operation_number number = operation_number::snapshot;
  std::string to{};
  static bool each(auto& self, auto&& f) { return f(self.to); }
};

// ---- Databases ----

struct create_database_request {
  static constexpr operation_number number = operation_number::create_database;
  database_settings settings{};
  static bool each(auto& self, auto&& f) { return f(self.settings); }
};
/// Answered with a handle, which is this connection's: closing one that is not open is no error.
struct open_database_request {
  static constexpr operation_number number = operation_number::open_database;
  std::string name{};
  static bool each(auto& self, auto&& f) { return f(self.name); }
};
struct drop_database_request {
  static constexpr operation_number number = operation_number::drop_database;
  std::string name{};
  static bool each(auto& self, auto&& f) { return f(self.name); }
};
struct copy_database_request {
  static constexpr operation_number number = operation_number::copy_database;
  std::string from{};
  service::point at{};
  database_settings settings{};
  static bool each(auto& self, auto&& f) { return f(self.from) && f(self.at) && f(self.settings); }
};
struct alter_database_request {
  static constexpr operation_number number = operation_number::alter_database;
  std::string name{};
  std::optional<wire_rule> rule{};
  std::optional<std::uint64_t> interval_ms{};
  std::optional<std::uint64_t> quota_bytes{};
  std::optional<std::string> owner{};
  static bool each(auto& self, auto&& f) {
    return f(self.name) && f(self.rule) && f(self.interval_ms) && f(self.quota_bytes) && f(self.owner);
  }
};

// ---- Keys and values ----

/// The value, or of it `length` bytes from `offset` on; what is behind its end is left out.
template <class Text>
struct basic_get_request {
  static constexpr operation_number number = operation_number::get;
  Text key{};
  service::point at{};
  std::uint64_t offset = 0;
  std::uint64_t length = UINT64_MAX;
  static bool each(auto& self, auto&& f) { return f(self.key) && f(self.at) && f(self.offset) && f(self.length); }
};
using get_request = basic_get_request<std::string>;
using get_request_view = basic_get_request<std::string_view>;
template <class Text>
struct basic_put_request {
  static constexpr operation_number number = operation_number::put;
  Text key{};
  Text value{};
  bool only_new = false;  ///< not if the key is there
  service::lease_number lease = 0;
  static bool each(auto& self, auto&& f) { return f(self.key) && f(self.value) && f(self.only_new) && f(self.lease); }
};
using put_request = basic_put_request<std::string>;
using put_request_view = basic_put_request<std::string_view>;
/// The key, or all keys up to, not including, `end` (empty: no end).
template <class Text>
struct basic_remove_request {
  static constexpr operation_number number = operation_number::remove;
  Text key{};
  std::optional<Text> end{};
  static bool each(auto& self, auto&& f) { return f(self.key) && f(self.end); }
};
using remove_request = basic_remove_request<std::string>;
using remove_request_view = basic_remove_request<std::string_view>;
/// A part of a value.
template <class Text>
struct basic_update_request {
  static constexpr operation_number number = operation_number::update;
  Text key{};
  Text part{};
  service::update_rule rule = service::update_rule::in_place;
  std::uint64_t offset = 0;
  bool or_put = false;  ///< a key that is not there is put
  static bool each(auto& self, auto&& f) {
    return f(self.key) && f(self.part) && f(self.rule) && f(self.offset) && f(self.or_put);
  }
};
using update_request = basic_update_request<std::string>;
using update_request_view = basic_update_request<std::string_view>;
struct increment_request {
  static constexpr operation_number number = operation_number::increment;
  std::string key{};
  std::int64_t by = 0;
  static bool each(auto& self, auto&& f) { return f(self.key) && f(self.by); }
};
struct write_request {
  static constexpr operation_number number = operation_number::write;
  service::transaction what{};
  static bool each(auto& self, auto&& f) { return f(self.what); }
};
/// All at one version.
struct get_many_request {
  static constexpr operation_number number = operation_number::get_many;
  service::byte_array keys{};
  service::point at{};
  static bool each(auto& self, auto&& f) { return f(self.keys) && f(self.at); }
};
/// Keys and values of the rows count, nothing else. All take effect, not at one instant.
struct load_request {
  static constexpr operation_number number = operation_number::load;
  service::row_block rows{};
  bool keep = false;  ///< keys that are there keep their values
  static bool each(auto& self, auto&& f) { return f(self.rows) && f(self.keep); }
};
struct count_request {
  static constexpr operation_number number = operation_number::count;
  icecore::key_bounds bounds{};
  service::point at{};
  static bool each(auto& self, auto&& f) { return f(self.bounds) && f(self.at); }
};

// ---- Rows: what opens them answers with their number and the first block ----

inline constexpr std::uint32_t block_bytes_default = 256U << 10;

struct open_scan_request {
  static constexpr operation_number number = operation_number::open_scan;
  icecore::key_bounds bounds{};
  service::point at{};
  bool reverse = false;
  std::uint64_t limit = 0;  ///< rows; 0: all
  bool values = true;
  bool versions = false;
  std::uint32_t block_bytes = block_bytes_default;
  static bool each(auto& self, auto&& f) {
    return f(self.bounds) && f(self.at) && f(self.reverse) && f(self.limit) && f(self.values) && f(self.versions) &&
           f(self.block_bytes);
  }
};
/// Newest first.
struct open_history_request {
  static constexpr operation_number number = operation_number::open_history;
  std::string key{};
  service::point up_to{};
  std::uint32_t block_bytes = block_bytes_default;
  static bool each(auto& self, auto&& f) { return f(self.key) && f(self.up_to) && f(self.block_bytes); }
};
struct open_differences_request {
  static constexpr operation_number number = operation_number::open_differences;
  version before = 0;
  service::point after{};
  icecore::key_bounds bounds{};
  std::uint32_t block_bytes = block_bytes_default;
  static bool each(auto& self, auto&& f) {
    return f(self.before) && f(self.after) && f(self.bounds) && f(self.block_bytes);
  }
};
struct open_changes_request {
  static constexpr operation_number number = operation_number::open_changes;
  version after = 0;
  service::point up_to{};
  icecore::key_bounds bounds{};
  bool before = false;  ///< the values before, too
  std::uint32_t block_bytes = block_bytes_default;
  static bool each(auto& self, auto&& f) {
    return f(self.after) && f(self.up_to) && f(self.bounds) && f(self.before) && f(self.block_bytes);
  }
};
/// The block of this number, counted from 0 (the one that opening has answered with), each once and in their order. A
/// client may ask for several at a time: two, as ours do.
struct next_rows_request {
  static constexpr operation_number number = operation_number::next_rows;
  std::uint32_t rows = 0;
  std::uint64_t block = 0;
  static bool each(auto& self, auto&& f) { return f(self.rows) && f(self.block); }
};
/// Rows that are at their end are closed already; closing them again is no error.
struct close_rows_request {
  static constexpr operation_number number = operation_number::close_rows;
  std::uint32_t rows = 0;
  static bool each(auto& self, auto&& f) { return f(self.rows); }
};

// ---- Watches: the client asks, the server answers as soon as there is something to tell ----

struct open_watch_request {
  static constexpr operation_number number = operation_number::open_watch;
  std::optional<version> after{};  ///< changes of later versions; empty: what comes
  icecore::key_bounds bounds{};
  bool before = false;
  static bool each(auto& self, auto&& f) { return f(self.after) && f(self.bounds) && f(self.before); }
};
/// Answered when there are changes, or after `wait_ms` with none: then `told` is how far the watch came. One at a time.
struct next_changes_request {
  static constexpr operation_number number = operation_number::next_changes;
  std::uint32_t watch = 0;
  std::uint32_t wait_ms = 0;  ///< 0: answered at once
  std::uint32_t block_bytes = block_bytes_default;
  static bool each(auto& self, auto&& f) { return f(self.watch) && f(self.wait_ms) && f(self.block_bytes); }
};
/// A next_changes that waits is answered at once with errc::cancelled.
struct close_watch_request {
  static constexpr operation_number number = operation_number::close_watch;
  std::uint32_t watch = 0;
  static bool each(auto& self, auto&& f) { return f(self.watch); }
};

// ---- Tags, versions, leases ----

struct tag_request {
  static constexpr operation_number number = operation_number::tag;
  std::string name{};
  std::string note{};
  std::optional<std::int64_t> time_ns{};
  static bool each(auto& self, auto&& f) { return f(self.name) && f(self.note) && f(self.time_ns); }
};
struct find_tag_request {
  static constexpr operation_number number = operation_number::find_tag;
  service::point at{};
  static bool each(auto& self, auto&& f) { return f(self.at); }
};
/// The version that a read at this point shows.
struct resolve_request {
  static constexpr operation_number number = operation_number::resolve;
  service::point at{};
  static bool each(auto& self, auto&& f) { return f(self.at); }
};
struct compact_request {
  static constexpr operation_number number = operation_number::compact;
  version oldest_kept = 0;
  static bool each(auto& self, auto&& f) { return f(self.oldest_kept); }
};
struct grant_lease_request {
  static constexpr operation_number number = operation_number::grant_lease;
  std::uint64_t time_ms = 0;
  service::lease_number wanted = 0;  ///< 0: one that is free
  static bool each(auto& self, auto&& f) { return f(self.time_ms) && f(self.wanted); }
};
struct keep_lease_request {
  static constexpr operation_number number = operation_number::keep_lease;
  service::lease_number lease = 0;
  static bool each(auto& self, auto&& f) { return f(self.lease); }
};
struct revoke_lease_request {
  static constexpr operation_number number = operation_number::revoke_lease;
  service::lease_number lease = 0;
  static bool each(auto& self, auto&& f) { return f(self.lease); }
};
struct describe_lease_request {
  static constexpr operation_number number = operation_number::describe_lease;
  service::lease_number lease = 0;
  bool keys = false;
  static bool each(auto& self, auto&& f) { return f(self.lease) && f(self.keys); }
};

}  // namespace icecore::wire
