// Between the client's public types and the messages.
//
// Threads: functions have no state. Errors: errc::io for what only another version of the server could have said.
// Cost: O(1), but for texts and batches.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "icecore/remote.hpp"
#include "wire/messages/answers.hpp"
#include "wire/messages/requests.hpp"

namespace icecore::remote::detail {

[[nodiscard]] wire::database_settings message_of(std::string_view name, const settings& with);
[[nodiscard]] database_info info_of(const wire::database_settings& told);
[[nodiscard]] service::transaction transaction_of(const batch& operations);
[[nodiscard]] lease_info lease_of(wire::lease_answer&& told);

// What pending results are read with: the payload of an answer whose status is 0.
[[nodiscard]] version read_put(std::span<const std::byte> payload);
[[nodiscard]] std::optional<version> read_put_new(std::span<const std::byte> payload);
[[nodiscard]] std::optional<version> read_remove(std::span<const std::byte> payload);
[[nodiscard]] std::optional<value> read_get(std::span<const std::byte> payload);
[[nodiscard]] update_result read_update(std::span<const std::byte> payload);

[[noreturn]] void throw_not_understood();

}  // namespace icecore::remote::detail
