// What a database is made with, and what is told about it, on the wire. Threads: plain data. Cost: O(1) but for texts.
//
//   create_database_request asked{.settings = {.name = "weights", .rule = wire_rule::tag}};
//
// Each choice has the number 0 for "what the server's configuration says"; the others are those of the public headers
// or of the service in their order, from 1 on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "service/owner.hpp"
#include "wire/messages/codec.hpp"

namespace icecore::wire {

enum class wire_rule : std::uint8_t { server_default, write, every, tag };
enum class wire_durability : std::uint8_t { server_default, best_available, none, tag, operation };
enum class wire_index : std::uint8_t { server_default, btree, skip_list, persistent, list, hash };
enum class wire_compression : std::uint8_t { server_default, none, zstd };
template <>
inline constexpr auto last_of<wire_rule> = wire_rule::tag;
template <>
inline constexpr auto last_of<wire_durability> = wire_durability::operation;
template <>
inline constexpr auto last_of<wire_index> = wire_index::hash;
template <>
inline constexpr auto last_of<wire_compression> = wire_compression::zstd;

struct database_settings {
  std::string name{};
  std::string owner{};  ///< in answers, and when it is altered
  wire_rule rule = wire_rule::server_default;
  std::uint64_t interval_ms = 0;  ///< of the rule `every`; 0: the server's default
  wire_durability durability = wire_durability::server_default;
  wire_index index = wire_index::server_default;
  wire_compression compression = wire_compression::server_default;
  std::uint64_t quota_bytes = 0;  ///< 0: none

  static bool each(auto& self, auto&& f) {
    return f(self.name) && f(self.owner) && f(self.rule) && f(self.interval_ms) && f(self.durability) &&
           f(self.index) && f(self.compression) && f(self.quota_bytes);
  }
};

struct database_status {
  database_settings settings{};
  version newest = 0;     ///< what a read of the present shows at least
  version durable = 0;    ///< the newest version that a power cut would keep, as far as is known
  version compacted = 0;  ///< older versions are given up
  std::uint64_t keys = 0;
  std::uint64_t records = 0;
  std::uint64_t tags = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t leases = 0;
  std::uint64_t watches = 0;
  std::uint64_t waiting = 0;
  std::string medium{};
  std::string sick{};  ///< why it is not served, or only read; empty: all is well

  static bool each(auto& self, auto&& f) {
    return f(self.settings) && f(self.newest) && f(self.durable) && f(self.compacted) && f(self.keys) &&
           f(self.records) && f(self.tags) && f(self.used_bytes) && f(self.file_bytes) && f(self.leases) &&
           f(self.watches) && f(self.waiting) && f(self.medium) && f(self.sick);
  }
};

/// Which server of which group. Clients of independent servers compare it with what their list says.
struct group_place {
  std::string name{};  ///< empty: the server is alone
  std::uint32_t index = 0;
  std::uint32_t size = 1;

  static bool each(auto& self, auto&& f) { return f(self.name) && f(self.index) && f(self.size); }
  friend bool operator==(const group_place&, const group_place&) = default;
};

/// Which of some independent servers has a key: owner_of(key, servers), as the servers themselves compute it.
using service::owner_of;

}  // namespace icecore::wire
