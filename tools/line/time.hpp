// Reads times in ISO 8601 and similar forms and in words, and writes them in ISO 8601 in UTC.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace icecore::cli {

/// The present time, in nanoseconds since 1970-01-01 UTC.
[[nodiscard]] std::int64_t now_ns();

/// Nanoseconds since 1970-01-01 UTC as "2024-05-01T12:00:00Z", with a fraction only if there is one.
[[nodiscard]] std::string format_time(std::int64_t time_ns);

/// Reads "2024-05-01", "2024-05-01T12:00", "2024-05-01T12:00:00.5Z", "2024-05-01 12:00+02:00", "@1714564800" (seconds
/// since 1970). A time without a zone is in UTC. errc::invalid_argument lists the accepted forms.
[[nodiscard]] std::int64_t parse_time(std::string_view text);

/// Reads what parse_time() does, and words that count from `now_ns`, in upper or lower case, with spaces, dots or
/// underscores between them:
///   now
///   today, yesterday             the first instant of that day in UTC, as of a date; "yesterday 14:00" is later
///   2 days ago, 1 week 3 days ago, an hour ago, last month
/// Units: seconds, minutes, hours, days, weeks, months, years (also sec and min), with or without their s. Days are 24
/// hours; months and years keep the day of the month and the time of the day, or end at the month's last day.
[[nodiscard]] std::int64_t parse_when(std::string_view text, std::int64_t now_ns);

/// Whether a text is meant to be a time: it begins as a date or with @, or is one of the words of parse_when().
[[nodiscard]] bool looks_like_time(std::string_view text);

}  // namespace icecore::cli
