#include "run/log/event_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "run/utf8.hpp"

namespace icecore::server {

namespace {

/// 2026-05-01T12:00:00.000123Z
void append_time(std::string& out, std::chrono::system_clock::time_point time) {
  using namespace std::chrono;
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(floor<microseconds>(time - day));
  fmt::format_to(std::back_inserter(out), "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", static_cast<int>(date.year()),
                 static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), clock.hours().count(),
                 clock.minutes().count(), clock.seconds().count(), clock.subseconds().count());
}

/// Calls visit(character, is_valid) for what is kept of the text; an invalid character is one byte. True: it was cut.
template <class Visit>
bool for_each_character(std::string_view text, const Visit& visit) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    const std::size_t step = std::max<std::size_t>(length, 1);
    if (at + step > log_string_bytes_max) return true;
    visit(text.substr(at, step), length > 0);
    at += step;
  }
  return false;
}

/// Control characters: C0, delete, and C1, which some terminals obey in UTF-8, too.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character.front());
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return character.size() == 2 && first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  const bool cut = for_each_character(text, [&](std::string_view character, bool valid) {
    if (!valid) {
      out += "\\ufffd";
    } else if (character == "\"" || character == "\\") {
      out += '\\';
      out += character;
    } else if (is_control(character)) {  // the last byte of a C1 character is its number
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned char>(character.back()));
    } else {
      out += character;
    }
  });
  out += cut ? "...\"" : "\"";
}

/// As it is if it is one plain word, else in quotation marks with \xHH for what a terminal might obey.
void append_text_string(std::string& out, std::string_view text) {
  const bool plain =
      !text.empty() && text.size() <= log_string_bytes_max && is_utf8(text) && std::ranges::none_of(text, [](char c) {
        return static_cast<unsigned char>(c) <= 0x20 || c == '"' || c == '=' || c == '\\' || c == 0x7f ||
               static_cast<unsigned char>(c) == 0xc2;
      });
  if (plain) {
    out += text;
    return;
  }
  out += '"';
  const bool cut = for_each_character(text, [&](std::string_view character, bool valid) {
    if (!valid || is_control(character)) {
      for (const char byte : character) {
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(byte));
      }
    } else {
      if (character == "\"" || character == "\\") out += '\\';
      out += character;
    }
  });
  out += cut ? "...\"" : "\"";
}

void append_value(std::string& out, log_format format, const log_field::value_type& value) {
  if (const auto* const text = std::get_if<std::string_view>(&value)) {
    format == log_format::json ? append_json_string(out, *text) : append_text_string(out, *text);
  } else if (const auto* const number = std::get_if<double>(&value)) {
    std::isfinite(*number) ? out += fmt::format("{}", *number) : out += "null";
  } else if (const auto* const yes = std::get_if<bool>(&value)) {
    out += *yes ? "true" : "false";
  } else if (const auto* const count = std::get_if<std::uint64_t>(&value)) {
    out += fmt::format_int(*count).c_str();
  } else {
    out += fmt::format_int(std::get<std::int64_t>(value)).c_str();
  }
}

std::string json_line(const log_event& event, std::span<const log_field> fields) {
  std::string out = "{\"time\":\"";
  append_time(out, event.time);
  out += "\",\"level\":\"";
  out += log_level_name(event.level);
  const auto member = [&](std::string_view name, const log_field::value_type& value) {
    out += ",\"";
    out += name;
    out += "\":";
    append_value(out, log_format::json, value);
  };
  out += '"';
  if (!event.server.empty()) member("server", event.server);
  member("event", event.event);
  for (const log_field& field : fields) member(field.name, field.value);
  if (event.suppressed > 0) member("suppressed", event.suppressed);
  return out += "}\n";
}

std::string text_line(const log_event& event, std::span<const log_field> fields) {
  std::string out;
  append_time(out, event.time);
  out += fmt::format(" {:<7} {}", log_level_name(event.level), event.event);
  const auto member = [&](std::string_view name, const log_field::value_type& value) {
    out += ' ';
    out += name;
    out += '=';
    append_value(out, log_format::text, value);
  };
  for (const log_field& field : fields) member(field.name, field.value);
  if (event.suppressed > 0) member("suppressed", event.suppressed);
  return out += '\n';
}

}  // namespace

std::string_view log_level_name(log_level level) noexcept {
  constexpr std::array<std::string_view, 4> names{"debug", "info", "warning", "error"};
  return names[static_cast<std::size_t>(level)];
}

std::string event_line(log_format format, const log_event& event, std::span<const log_field> fields) {
  return format == log_format::json ? json_line(event, fields) : text_line(event, fields);
}

}  // namespace icecore::server
