// Keys of the server itself in a database: leases, and up to which version it was compacted. They change in the same
// batches as what they describe. No client reads, lists or writes them: they begin with `hidden_prefix`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "icecore/snapshot.hpp"

namespace icecore::service {

inline constexpr std::string_view hidden_prefix("\0icecore/", 9);
inline constexpr std::string_view lease_prefix("\0icecore/lease/", 15);      // then the number: the time granted, in ms
inline constexpr std::string_view leased_prefix("\0icecore/leased/", 16);    // then a key: the number of its lease
inline constexpr std::string_view compacted_key("\0icecore/compacted", 18);  // the oldest version kept

[[nodiscard]] inline bool is_hidden(std::string_view key) noexcept { return key.starts_with(hidden_prefix); }

/// Numbers in hidden keys and values: 8 bytes, the most significant first, so that keys are in the order of numbers.
[[nodiscard]] std::string bytes_of_number(std::uint64_t number);
[[nodiscard]] std::optional<std::uint64_t> number_of_bytes(std::string_view bytes) noexcept;

/// errc::invalid_argument if the key is one of the server's, key_too_long if a key could not be hidden behind it.
void require_client_key(std::string_view key);

/// Whether the bounds hold the key.
[[nodiscard]] bool holds(const icecore::key_bounds& bounds, std::string_view key) noexcept;

}  // namespace icecore::service
