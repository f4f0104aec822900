// Settings of databases as they travel, and as the service has them. Threads: no state.
#pragma once

#include "service/database.hpp"
#include "wire/messages/requests.hpp"

namespace icecore::doors {

[[nodiscard]] wire::database_settings message_of(const service::database_settings& from);
[[nodiscard]] wire::database_status message_of(const service::database_status& from);
/// What is left open gets its value from `defaults`. errc::invalid_argument.
[[nodiscard]] service::database_settings settings_of(const wire::database_settings& from,
                                                     const service::database_settings& defaults);
[[nodiscard]] service::changed_settings changes_of(const wire::alter_database_request& from);

}  // namespace icecore::doors
