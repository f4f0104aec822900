// Any request, read from the bytes of a frame: what a door begins with, and what is fuzzed.
//
//   std::optional<any_request> asked = decode_request(header.operation, payload);
//   if (!asked) return connection.close(close_reason::malformed, "...");
//   std::visit([&](auto& what) { execute(what); }, *asked);
//
// Threads: functions have no state. Errors: empty for an unknown operation and for bytes that are no request of it;
// std::bad_alloc. Cost: O(bytes).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "wire/messages/requests.hpp"

namespace icecore::wire {

using any_request =
    std::variant<status_request, group_request, snapshot_request, create_database_request, open_database_request,
                 close_database_request, drop_database_request, list_databases_request, describe_database_request,
                 copy_database_request, alter_database_request, get_request, put_request, remove_request,
                 update_request, increment_request, write_request, get_many_request, load_request, count_request,
                 open_scan_request, open_history_request, open_differences_request, open_changes_request,
                 next_rows_request, close_rows_request, open_watch_request, next_changes_request, close_watch_request,
                 tag_request, list_tags_request, find_tag_request, resolve_request, sync_request, compact_request,
                 grant_lease_request, keep_lease_request, revoke_lease_request, describe_lease_request,
                 list_leases_request>;

[[nodiscard]] std::optional<any_request> decode_request(std::uint16_t operation, std::span<const std::byte> payload);

[[nodiscard]] operation_number number_of(const any_request& request) noexcept;
[[nodiscard]] byte_buffer encode_request(const any_request& request);

/// Whether the request may be repeated when nobody knows if it took effect: as its operation (operation.hpp), but for
/// a put of a new key, which a second time says that the key is there; and a transaction that only reads may be.
[[nodiscard]] bool may_repeat(const any_request& request) noexcept;

}  // namespace icecore::wire
