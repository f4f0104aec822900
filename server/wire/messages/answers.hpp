// What the server answers, as data: of each operation, where its status is 0. Any other status has a failed_answer.
//
//   get_answer told;
//   if (status == 0 && decoded(answer.payload.view(), told) && told.found) use(told.value);
//
// Operations without an answer of their own (drop, close, sync, compact) have an empty payload.
// Threads: plain data. Cost: O(bytes).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wire/format/frame_payload.hpp"
#include "wire/messages/database_settings.hpp"

namespace icecore::wire {

/// Why a request failed: what, where, and what to do. The status of the frame is the errc.
struct failed_answer {
  std::string message{};
  static bool each(auto& self, auto&& f) { return f(self.message); }
};

struct status_answer {
  struct sick_database {
    std::string name{};
    std::uint16_t code = 0;  ///< an errc
    std::string why{};
    static bool each(auto& self, auto&& f) { return f(self.name) && f(self.code) && f(self.why); }
  };
  std::string identity{};  ///< 32 hexadecimal digits
  std::string name{};
  std::string program_version{};
  group_place place{};
  std::vector<sick_database> not_ready{};
  static bool each(auto& self, auto&& f) {
    return f(self.identity) && f(self.name) && f(self.program_version) && f(self.place) && f(self.not_ready);
  }
};
/// The servers of the group as far as this one knows them: of independent ones, itself alone.
struct group_answer {
  struct member {
    std::string address{};  ///< of its UCX door, "host:port"
    std::uint32_t index = 0;
    static bool each(auto& self, auto&& f) { return f(self.address) && f(self.index); }
  };
  bool dependent = false;
  std::uint64_t map_number = 0;  ///< grows with each change of the map
  group_place place{};
  std::vector<member> members{};
  static bool each(auto& self, auto&& f) {
    return f(self.dependent) && f(self.map_number) && f(self.place) && f(self.members);
  }
};
struct snapshot_answer {
  struct part {
    std::string database{};
    icecore::version version = 0;
    std::uint64_t bytes = 0;
    static bool each(auto& self, auto&& f) { return f(self.database) && f(self.version) && f(self.bytes); }
  };
  std::vector<part> parts{};
  static bool each(auto& self, auto&& f) { return f(self.parts); }
};

/// Of create, copy and alter.
struct database_answer {
  database_settings settings{};
  static bool each(auto& self, auto&& f) { return f(self.settings); }
};
struct open_database_answer {
  std::uint32_t handle = 0;  ///< for the headers of requests on this connection
  std::uint64_t number = 0;  ///< of the database: another one of the same name has another number
  database_settings settings{};
  static bool each(auto& self, auto&& f) { return f(self.handle) && f(self.number) && f(self.settings); }
};
struct list_databases_answer {
  std::vector<database_settings> databases{};
  static bool each(auto& self, auto&& f) { return f(self.databases); }
};
struct describe_database_answer {
  database_status status{};
  static bool each(auto& self, auto&& f) { return f(self.status); }
};

struct get_answer {
  bool found = false;
  icecore::version version = 0;  ///< of the record
  std::uint64_t size = 0;        ///< of the whole value
  std::string value{};           ///< the part that was asked for
  static bool each(auto& self, auto&& f) { return f(self.found) && f(self.version) && f(self.size) && f(self.value); }
};
/// The same bytes as a get_answer, without a copy of the value on the way.
[[nodiscard]] byte_buffer encoded_get_answer(icecore::version version, std::uint64_t size, std::string_view part);
/// Reads a get_answer whose value stays in `bytes`.
struct get_answer_view {
  bool found = false;
  icecore::version version = 0;
  std::uint64_t size = 0;
  std::string_view value{};
};
[[nodiscard]] bool decoded(std::span<const std::byte> bytes, get_answer_view& read) noexcept;

struct put_answer {
  bool written = false;
  icecore::version version = 0;
  static bool each(auto& self, auto&& f) { return f(self.written) && f(self.version); }
};
struct remove_answer {
  std::uint64_t removed = 0;
  icecore::version version = 0;
  static bool each(auto& self, auto&& f) { return f(self.removed) && f(self.version); }
};
/// Of update and increment: done, or why it was not applied.
struct update_answer {
  service::operation_result::state is = service::operation_result::state::done;
  icecore::version version = 0;
  std::uint64_t size = 0;   ///< of the value after an update
  std::int64_t number = 0;  ///< after an increment
  static bool each(auto& self, auto&& f) { return f(self.is) && f(self.version) && f(self.size) && f(self.number); }
};
struct write_answer {
  service::outcome done{};
  static bool each(auto& self, auto&& f) { return f(self.done); }
};
/// One for each key that was asked for.
struct get_many_answer {
  icecore::version version = 0;  ///< that all were read at
  service::byte_array values{};
  std::vector<std::uint8_t> found{};
  static bool each(auto& self, auto&& f) { return f(self.version) && f(self.values) && f(self.found); }
};
struct load_answer {
  std::uint64_t written = 0;
  static bool each(auto& self, auto&& f) { return f(self.written); }
};
struct count_answer {
  std::uint64_t count = 0;
  icecore::version version = 0;
  static bool each(auto& self, auto&& f) { return f(self.count) && f(self.version); }
};

/// Of everything that opens rows, and of next_rows.
struct rows_answer {
  std::uint32_t rows = 0;  ///< their number on this connection
  std::uint64_t block = 0;
  bool end = false;              ///< there are no more; the rows are closed
  icecore::version version = 0;  ///< that is read (of differences and changes: the later one)
  service::row_block block_of_rows{};
  static bool each(auto& self, auto&& f) {
    return f(self.rows) && f(self.block) && f(self.end) && f(self.version) && f(self.block_of_rows);
  }
};
/// The message of one whose values are sent from where they were gathered; the block is left without them.
[[nodiscard]] frame_payload encoded_rows(rows_answer& told);
/// Reads a rows_answer whose rows stay where they arrived.
struct rows_answer_view {
  std::uint32_t rows = 0;
  std::uint64_t block = 0;
  bool end = false;
  icecore::version version = 0;
  rows_view block_of_rows{};
  static bool each(auto& self, auto&& f) { return rows_answer::each(self, f); }
};
/// Of open_watch (without changes) and next_changes.
struct changes_answer {
  std::uint32_t watch = 0;
  icecore::version told = 0;  ///< all changes of the versions up to this one are told
  service::row_block changes{};
  static bool each(auto& self, auto&& f) { return f(self.watch) && f(self.told) && f(self.changes); }
};

/// Of tag and resolve.
struct version_answer {
  icecore::version version = 0;
  static bool each(auto& self, auto&& f) { return f(self.version); }
};
struct list_tags_answer {
  std::vector<icecore::tag_info> tags{};
  static bool each(auto& self, auto&& f) { return f(self.tags); }
};
struct find_tag_answer {
  std::optional<icecore::tag_info> tag{};
  static bool each(auto& self, auto&& f) { return f(self.tag); }
};

/// Of grant, keep and describe.
struct lease_answer {
  service::lease_number lease = 0;
  std::uint64_t granted_ms = 0;
  std::uint64_t left_ms = 0;
  std::vector<std::string> keys{};
  static bool each(auto& self, auto&& f) {
    return f(self.lease) && f(self.granted_ms) && f(self.left_ms) && f(self.keys);
  }
};
struct revoke_lease_answer {
  std::uint64_t removed = 0;
  icecore::version version = 0;
  static bool each(auto& self, auto&& f) { return f(self.removed) && f(self.version); }
};
struct list_leases_answer {
  std::vector<service::lease_number> leases{};
  static bool each(auto& self, auto&& f) { return f(self.leases); }
};

}  // namespace icecore::wire
