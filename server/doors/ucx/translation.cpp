#include "doors/ucx/translation.hpp"

#include <fmt/format.h>

#include "icecore/error.hpp"

namespace icecore::doors {

namespace {

using wire::wire_compression;
using wire::wire_durability;
using wire::wire_index;
using wire::wire_rule;

// Each choice on the wire is one more than the service's, since 0 is the server's default there.
static_assert(static_cast<int>(wire_rule::tag) == static_cast<int>(service::version_rule::tag) + 1);
static_assert(static_cast<int>(wire_rule::write) == static_cast<int>(service::version_rule::write) + 1);
static_assert(static_cast<int>(wire_durability::best_available) ==
              static_cast<int>(icecore::durability::best_available) + 1);
static_assert(static_cast<int>(wire_durability::operation) == static_cast<int>(icecore::durability::operation) + 1);
static_assert(static_cast<int>(wire_compression::zstd) == static_cast<int>(service::value_compression::zstd) + 1);
// Kinds of index begin at 1.
static_assert(static_cast<int>(wire_index::btree) == static_cast<int>(icecore::index_kind::btree));
static_assert(static_cast<int>(wire_index::hash) == static_cast<int>(icecore::index_kind::hash));

template <typename To, typename From>
To up(From value) {
  return static_cast<To>(static_cast<int>(value) + 1);
}
template <typename To, typename From>
To down(From value) {
  return static_cast<To>(static_cast<int>(value) - 1);
}

std::chrono::milliseconds interval_of(std::uint64_t ms) {
  constexpr std::uint64_t day_ms = 86'400'000;
  if (ms == 0 || ms > day_ms) {
    throw error(errc::invalid_argument, fmt::format("an interval of {} ms: it may be 1 ms to 1 day", ms));
  }
  return std::chrono::milliseconds(ms);
}

}  // namespace

wire::database_settings message_of(const service::database_settings& from) {
  return {.name = from.name,
          .owner = from.owner,
          .rule = up<wire_rule>(from.rule),
          .interval_ms = static_cast<std::uint64_t>(from.interval.count()),
          .durability = up<wire_durability>(from.durability),
          .index = static_cast<wire_index>(from.index),
          .compression = up<wire_compression>(from.compression),
          .quota_bytes = from.quota_bytes};
}

wire::database_status message_of(const service::database_status& from) {
  wire::database_status to;
  to.settings = message_of(from.settings);
  to.newest = from.newest;
  to.durable = from.durable;
  to.compacted = from.compacted;
  to.keys = from.statistics.keys;
  to.records = from.statistics.records;
  to.tags = from.statistics.tags;
  to.used_bytes = from.statistics.used_bytes;
  to.file_bytes = from.statistics.file_bytes;
  to.leases = from.leases;
  to.watches = from.watches;
  to.waiting = from.waiting;
  to.medium = from.statistics.durability.filesystem;
  if (from.sick) to.sick = from.sick->message;
  return to;
}

service::database_settings settings_of(const wire::database_settings& from,
                                       const service::database_settings& defaults) {
  service::database_settings to = defaults;
  to.name = from.name;
  to.owner = from.owner;
  if (from.rule != wire_rule::server_default) to.rule = down<service::version_rule>(from.rule);
  if (from.interval_ms != 0) to.interval = interval_of(from.interval_ms);
  if (from.durability != wire_durability::server_default) to.durability = down<icecore::durability>(from.durability);
  if (from.index != wire_index::server_default) to.index = static_cast<icecore::index_kind>(from.index);
  if (from.compression != wire_compression::server_default) {
    to.compression = down<service::value_compression>(from.compression);
  }
  if (from.quota_bytes != 0) to.quota_bytes = from.quota_bytes;
  return to;
}

service::changed_settings changes_of(const wire::alter_database_request& from) {
  service::changed_settings to;
  if (from.rule) {
    if (*from.rule == wire_rule::server_default) {
      throw error(errc::invalid_argument, "say which version rule: write, every or tag");
    }
    to.rule = down<service::version_rule>(*from.rule);
  }
  if (from.interval_ms) to.interval = interval_of(*from.interval_ms);
  to.quota_bytes = from.quota_bytes;
  to.owner = from.owner;
  return to;
}

}  // namespace icecore::doors
