#include "conversions.hpp"

namespace icecore::remote::detail {

namespace {

// The numbers of these are the same on both sides; the messages have one more, 0, for the server's default.
static_assert(static_cast<int>(version_rule::tag) == static_cast<int>(wire::wire_rule::tag));
static_assert(static_cast<int>(compression::zstd) == static_cast<int>(wire::wire_compression::zstd));
static_assert(static_cast<int>(durability::operation) + 1 == static_cast<int>(wire::wire_durability::operation));
static_assert(static_cast<int>(index_kind::hash) == static_cast<int>(wire::wire_index::hash));
static_assert(static_cast<int>(update_rule::append) == static_cast<int>(service::update_rule::append));
static_assert(static_cast<int>(update_state::no_number) ==
              static_cast<int>(service::operation_result::state::no_number));

template <class Answer>
Answer understood(std::span<const std::byte> payload) {
  Answer read;
  if (!wire::decoded(payload, read)) throw_not_understood();
  return read;
}

}  // namespace

void throw_not_understood() {
  throw icecore::error(errc::io, "the server gave an answer that is not understood: is it of another version?");
}

wire::database_settings message_of(std::string_view name, const settings& with) {
  wire::database_settings message;
  message.name = name;
  message.rule = static_cast<wire::wire_rule>(with.rule);
  message.interval_ms = static_cast<std::uint64_t>(std::max<std::int64_t>(0, with.interval.count()));
  if (with.durability) message.durability = static_cast<wire::wire_durability>(static_cast<int>(*with.durability) + 1);
  if (with.index) message.index = static_cast<wire::wire_index>(*with.index);
  message.compression = static_cast<wire::wire_compression>(with.compression);
  message.quota_bytes = with.quota_bytes;
  return message;
}

database_info info_of(const wire::database_settings& told) {
  database_info info{.name = told.name, .owner = told.owner, .settings = {}};
  info.settings.rule = static_cast<version_rule>(told.rule);
  info.settings.interval = std::chrono::milliseconds(told.interval_ms);
  if (told.durability != wire::wire_durability::server_default) {
    info.settings.durability = static_cast<durability>(static_cast<int>(told.durability) - 1);
  }
  if (told.index != wire::wire_index::server_default) info.settings.index = static_cast<index_kind>(told.index);
  info.settings.compression = static_cast<compression>(told.compression);
  info.settings.quota_bytes = told.quota_bytes;
  return info;
}

service::transaction transaction_of(const batch& operations) {
  service::transaction what;
  for (const batch::operation& each : operations.operations()) {
    if (each.expected && *each.expected == 0) {
      what.conditions.push_back({.key = each.key, .is = service::condition::kind::absent});
    } else if (each.expected) {
      // A record of this version that is a removal is not there: the condition holds for values alone.
      what.conditions.push_back({.key = each.key, .is = service::condition::kind::present});
      what.conditions.push_back(
          {.key = each.key, .is = service::condition::kind::version_is, .version = *each.expected});
    }
    what.then.push_back(each.value ? service::operation::put(each.key, *each.value)
                                   : service::operation::remove(each.key));
  }
  return what;
}

lease_info lease_of(wire::lease_answer&& told) {
  return {.number = told.lease,
          .granted = std::chrono::milliseconds(told.granted_ms),
          .left = std::chrono::milliseconds(told.left_ms),
          .keys = std::move(told.keys)};
}

version read_put(std::span<const std::byte> payload) { return understood<wire::put_answer>(payload).version; }

std::optional<version> read_put_new(std::span<const std::byte> payload) {
  const auto told = understood<wire::put_answer>(payload);
  return told.written ? std::optional(told.version) : std::nullopt;
}

std::optional<version> read_remove(std::span<const std::byte> payload) {
  const auto told = understood<wire::remove_answer>(payload);
  return told.removed > 0 ? std::optional(told.version) : std::nullopt;
}

std::optional<value> read_get(std::span<const std::byte> payload) {
  wire::get_answer_view told;
  if (!wire::decoded(payload, told)) throw_not_understood();
  return told.found ? std::optional<value>(std::in_place, std::string(told.value), told.version) : std::nullopt;
}

update_result read_update(std::span<const std::byte> payload) {
  const auto told = understood<wire::update_answer>(payload);
  return {.is = static_cast<update_state>(told.is), .version = told.version, .size = told.size, .number = told.number};
}

}  // namespace icecore::remote::detail
