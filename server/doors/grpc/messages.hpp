// From icecore.v1's messages to what the service takes, and back. Everything a client sends is checked here, before the
// first use: lengths of columns, numbers of enumerations, counts, keys that are named twice.
//
//   const service::transaction t = transaction_of(request, limits.transaction_operations);  // or invalid_argument
//   fill(*response, outcome);
//
// Threads: any number. Errors: errc::invalid_argument, with what was asked and what is allowed.
// Cost: O(bytes) copied; of row blocks the bytes are exchanged, not copied.
#pragma once

#include <icecore/v1/icecore.pb.h>

#include <string_view>

#include "service/database.hpp"
#include "service/service.hpp"

namespace icecore::doors {

// ---- From messages ----
[[nodiscard]] service::point point_of(const v1::Point& at);
[[nodiscard]] key_bounds bounds_of(const v1::Bounds& bounds);
/// The bounds of `key` alone, or from it up to `end`; an empty end is none.
[[nodiscard]] key_bounds bounds_from(std::string_view key, std::string_view end);
[[nodiscard]] service::transaction transaction_of(const v1::WriteRequest& request, std::uint64_t operations_max,
                                                  service::refusals* refused = nullptr);
[[nodiscard]] service::operation put_of(const v1::PutRequest& request);
[[nodiscard]] service::operation remove_of(const v1::RemoveRequest& request);
/// What the message leaves out is taken from `defaults`.
[[nodiscard]] service::database_settings settings_of(const v1::DatabaseSettings& settings,
                                                     const service::database_settings& defaults);
[[nodiscard]] service::changed_settings changes_of(const v1::AlterDatabaseRequest& request);
[[nodiscard]] service::role role_of(const v1::Role& role);
/// Takes the rows out of the message.
[[nodiscard]] service::row_block rows_of(v1::Rows& rows);
[[nodiscard]] service::block_limits block_limits_of(std::uint32_t rows, std::uint32_t bytes);

// ---- To messages ----
/// The block's bytes and the message's are exchanged, so that neither has to allocate the next time.
void exchange(v1::Rows& rows, service::row_block& block);
void fill(v1::WriteResponse& response, service::outcome& done);
void fill(v1::DatabaseSettings& message, const service::database_settings& settings);
void fill(v1::DatabaseStatus& message, const service::database_status& status);
void fill(v1::Tag& message, const tag_info& tag);
void fill(v1::Lease& message, const service::lease_info& lease);
void fill(v1::Role& message, const service::role& role);

}  // namespace icecore::doors
