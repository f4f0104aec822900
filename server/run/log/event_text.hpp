// One event as a line: JSON for programs, text for people.
//
//   event_line(log_format::json, {.time = now, .level = log_level::info, .event = "http.listening"}, {{"port", 7481}})
//     {"time":"2026-05-01T12:00:00.000123Z","level":"info","event":"http.listening","port":7481}
//
// Strings may hold any bytes that a client has sent: control characters and what is no UTF-8 are escaped or replaced,
// so a line stays one line and does nothing to a terminal; of long ones the first 1,024 bytes are kept.
//
// Names of events and fields come from our code and need no escapes. Threads: pure functions. Cost: O(length).
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "run/configuration/configuration.hpp"

namespace icecore::server {

/// The bytes of a string that are kept.
inline constexpr std::size_t log_string_bytes_max = 1024;

/// A member of an event. It refers to the strings, which must live until the event is written.
struct log_field {
  using value_type = std::variant<std::string_view, std::int64_t, std::uint64_t, double, bool>;
  std::string_view name;
  value_type value;

  log_field(std::string_view name_, std::convertible_to<std::string_view> auto const& text)
      : name(name_), value(std::string_view(text)) {}
  log_field(std::string_view name_, bool yes) : name(name_), value(yes) {}
  log_field(std::string_view name_, double number) : name(name_), value(number) {}
  log_field(std::string_view name_, std::unsigned_integral auto number)
    requires(!std::same_as<decltype(number), bool>)
      : name(name_), value(static_cast<std::uint64_t>(number)) {}
  log_field(std::string_view name_, std::signed_integral auto number)
      : name(name_), value(static_cast<std::int64_t>(number)) {}
};

struct log_event {
  std::chrono::system_clock::time_point time;
  log_level level;
  std::string_view event;        ///< "http.listening": what happened, after the part of the server that says it
  std::string_view server = {};  ///< the server's name, left out if empty
  std::uint64_t suppressed = 0;  ///< events of this name that were not written before this one
};

/// The line with its line feed.
[[nodiscard]] std::string event_line(log_format format, const log_event& event, std::span<const log_field> fields);

[[nodiscard]] std::string_view log_level_name(log_level level) noexcept;

}  // namespace icecore::server
