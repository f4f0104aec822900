// Reads times in ISO 8601 and similar forms, and writes them in ISO 8601 in UTC.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace icecore::cli {

/// Nanoseconds since 1970-01-01 UTC as "2024-05-01T12:00:00Z", with a fraction only if there is one.
[[nodiscard]] std::string format_time(std::int64_t time_ns);

/// Reads "2024-05-01", "2024-05-01T12:00", "2024-05-01T12:00:00.5Z", "2024-05-01 12:00+02:00", "@1714564800" (seconds
/// since 1970). A time without a zone is in UTC. errc::invalid_argument lists the accepted forms.
[[nodiscard]] std::int64_t parse_time(std::string_view text);

}  // namespace icecore::cli
