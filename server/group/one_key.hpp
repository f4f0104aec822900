// A transaction on one key, as bytes that travel to the key's owner, and its outcome on the way back.
//
//   const std::string bytes = packed(transaction);          // errc::invalid_argument if it names several keys
//   const std::optional<transaction> again = unpacked_transaction(bytes);
//
// Of what the transaction may take, the bound of its reads travels; its memory is the owner's.
// Both ends are servers of one build, so the numbers are those of the machine. Lengths are checked before their use.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "service/transaction.hpp"

namespace icecore::server::group {

/// The key that all conditions and operations name. errc::invalid_argument if there are several, or ranges: a group
/// could not execute that at one instant.
[[nodiscard]] std::string_view key_of(const service::transaction& what);

[[nodiscard]] std::string packed(const service::transaction& what);
[[nodiscard]] std::optional<service::transaction> unpacked_transaction(std::string_view bytes);
[[nodiscard]] std::string packed(const service::outcome& what);
[[nodiscard]] std::optional<service::outcome> unpacked_outcome(std::string_view bytes);

}  // namespace icecore::server::group
