#include "line/time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <optional>
#include <vector>

#include "icecore/error.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

constexpr std::int64_t ns_per_second = 1'000'000'000;

/// Reads a time from front to back; `good` becomes false at the first part that does not fit.
struct reader {
  std::string_view rest;
  bool good = true;

  int digits(std::size_t count, int low, int high) {
    int value = 0;
    if (rest.size() < count) good = false;
    for (std::size_t i = 0; good && i < count; ++i) {
      if (rest[i] < '0' || rest[i] > '9') good = false;
      value = value * 10 + (rest[i] - '0');
    }
    if (!good || value < low || value > high) {
      good = false;
      return low;
    }
    rest.remove_prefix(count);
    return value;
  }

  bool accept(std::string_view any_of) {
    if (rest.empty() || any_of.find(rest[0]) == std::string_view::npos) return false;
    rest.remove_prefix(1);
    return true;
  }

  void expect(char c) {
    if (!accept({&c, 1})) good = false;
  }

  /// Digits after a decimal point as nanoseconds; digits after the ninth are ignored.
  std::int64_t fraction_ns() {
    std::int64_t value = 0;
    std::int64_t unit = ns_per_second / 10;
    bool any = false;
    while (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') {
      value += unit * (rest[0] - '0');
      unit /= 10;
      any = true;
      rest.remove_prefix(1);
    }
    if (!any) good = false;
    return value;
  }
};

[[noreturn]] void fail(std::string_view text) {
  throw error(errc::invalid_argument,
              fmt::format("'{}' is not a valid time: write 2024-05-01, 2024-05-01T12:00:00Z, "
                          "2024-05-01T14:00:00+02:00, @SECONDS since 1970, or where a version is named '2 days ago', "
                          "'yesterday 14:00' or 'last week'; years 1678 to 2261",
                          shown(text, 60)));
}

std::int64_t to_ns(std::int64_t seconds, std::int64_t fraction_ns, std::string_view text) {
  constexpr std::int64_t limit = std::numeric_limits<std::int64_t>::max() / ns_per_second;
  if (seconds >= limit || seconds <= -limit) fail(text);
  return seconds * ns_per_second + fraction_ns;
}

/// The words of a text in lower case: spaces, dots and underscores divide them.
std::vector<std::string> words_in(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c != ' ' && c != '.' && c != '_') {
      words.back() += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

/// A unit of time: some seconds, or some months.
struct unit {
  std::int64_t seconds = 0;
  std::int64_t months = 0;
};

std::optional<unit> unit_named(std::string_view name) {
  if (name.size() > 1 && name.ends_with('s')) name.remove_suffix(1);
  if (name == "second" || name == "sec") return unit{.seconds = 1};
  if (name == "minute" || name == "min") return unit{.seconds = 60};
  if (name == "hour") return unit{.seconds = 3600};
  if (name == "day") return unit{.seconds = 86'400};
  if (name == "week") return unit{.seconds = 7 * 86'400};
  if (name == "month") return unit{.months = 1};
  if (name == "year") return unit{.months = 12};
  return std::nullopt;
}

std::optional<std::int64_t> count_named(std::string_view name) {
  if (name == "a" || name == "an" || name == "one" || name == "last") return 1;
  std::int64_t count = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, failure] = std::from_chars(name.data(), end, count);
  if (failure != std::errc{} || stop != end || count < 0) return std::nullopt;
  return count;
}

std::int64_t earlier(std::int64_t time_ns, std::int64_t count, const unit& by, std::string_view text) {
  using namespace std::chrono;
  if (by.months == 0) {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / ns_per_second;
    if (count > most / by.seconds) fail(text);
    std::int64_t result = 0;
    if (__builtin_sub_overflow(time_ns, count * by.seconds * ns_per_second, &result)) fail(text);
    return result;
  }
  constexpr std::int64_t months_max = 12 * 600;  // more than there are from 1678 to 2261
  if (count > months_max) fail(text);
  const sys_time<nanoseconds> time{nanoseconds{time_ns}};
  const auto day = floor<days>(time);
  year_month_day date = year_month_day{day} - months{count * by.months};
  if (!date.ok()) date = date.year() / date.month() / last;
  if (date.year() < year{1678}) fail(text);
  return (sys_days{date} + (time - day)).time_since_epoch().count();
}

/// "2 days ago", "1 week 3 days ago", "last month"; empty if it is none of them.
std::optional<std::int64_t> parse_ago(std::string_view text, std::int64_t now_ns) {
  std::vector<std::string> words = words_in(text);
  if (words.empty()) return std::nullopt;
  const bool is_last = words.front() == "last" && words.size() == 2;
  if (!is_last && words.back() != "ago") return std::nullopt;
  if (!is_last) words.pop_back();
  if (words.empty() || words.size() % 2 != 0) fail(text);
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const auto count = count_named(words[i]);
    const auto by = unit_named(words[i + 1]);
    if (!count || !by) fail(text);
    now_ns = earlier(now_ns, *count, *by, text);
  }
  return now_ns;
}

std::int64_t parse_seconds(std::string_view text) {
  std::int64_t seconds = 0;
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data() + 1, end, seconds);
  if (failure != std::errc{} || stop != end) fail(text);
  return to_ns(seconds, 0, text);
}

}  // namespace

std::int64_t now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

std::string format_time(std::int64_t time_ns) {
  using namespace std::chrono;
  const sys_time<nanoseconds> time{nanoseconds{time_ns}};
  const auto day = floor<days>(time);
  const year_month_day date{day};
  const hh_mm_ss clock{time - day};
  std::string out = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                                clock.hours().count(), clock.minutes().count(), clock.seconds().count());
  if (const auto fraction = clock.subseconds().count(); fraction != 0) {
    std::string digits = fmt::format(".{:09}", fraction);
    digits.erase(digits.find_last_not_of('0') + 1);
    out += digits;
  }
  return out + 'Z';
}

std::int64_t parse_time(std::string_view text) {
  using namespace std::chrono;
  if (text.starts_with('@')) return parse_seconds(text);
  reader r{text};
  const int y = r.digits(4, 0, 9999);
  r.expect('-');
  const int m = r.digits(2, 1, 12);
  r.expect('-');
  const int d = r.digits(2, 1, 31);
  const year_month_day date{year{y}, month{static_cast<unsigned>(m)}, day{static_cast<unsigned>(d)}};
  if (!date.ok()) r.good = false;

  std::int64_t seconds = 0;
  std::int64_t fraction = 0;
  if (r.good && r.accept("Tt ")) {
    seconds = r.digits(2, 0, 23) * 3600;
    r.expect(':');
    seconds += r.digits(2, 0, 59) * 60;
    if (r.accept(":")) {
      seconds += r.digits(2, 0, 60);
      if (r.accept(".,")) fraction = r.fraction_ns();
    }
    if (!r.accept("Zz") && !r.rest.empty()) {
      const bool west = r.rest[0] == '-';
      if (!r.accept("+-")) r.good = false;
      int offset = r.digits(2, 0, 23) * 3600;
      r.accept(":");
      if (!r.rest.empty()) offset += r.digits(2, 0, 59) * 60;
      seconds += west ? offset : -offset;
    }
  }
  if (!r.good || !r.rest.empty()) fail(text);
  return to_ns(sys_days{date}.time_since_epoch().count() * std::int64_t{86'400} + seconds, fraction, text);
}

std::int64_t parse_when(std::string_view text, std::int64_t now_ns) {
  if (const auto ago = parse_ago(text, now_ns)) return *ago;
  const std::vector<std::string> words = words_in(text);
  if (words == std::vector<std::string>{"now"}) return now_ns;
  if (words.empty() || (words.front() != "today" && words.front() != "yesterday")) return parse_time(text);
  // A day's name stands for its date; a time of the day may follow.
  constexpr std::int64_t ns_per_day = 86'400 * ns_per_second;
  const std::int64_t day_ns = words.front() == "today" ? now_ns : now_ns - ns_per_day;
  const std::size_t date_size = std::string_view("2024-05-01").size();
  const std::size_t name_at = text.find_first_not_of(" ._");
  std::string_view clock = text.substr(name_at + words.front().size());
  clock.remove_prefix(std::min(clock.find_first_not_of(" ._"), clock.size()));
  const std::string date = format_time(day_ns).substr(0, date_size);
  if (!clock.empty() && (clock.front() < '0' || clock.front() > '9')) fail(text);
  return parse_time(clock.empty() ? date : date + 'T' + std::string(clock));
}

bool looks_like_time(std::string_view text) {
  const auto digits = [&](std::size_t from, std::size_t count) {
    return text.size() >= from + count && text.substr(from, count).find_first_not_of("0123456789") == text.npos;
  };
  if (text.starts_with('@')) return digits(1, 1) || (text.starts_with("@-") && digits(2, 1));
  if (digits(0, 4) && text.size() > 5 && text[4] == '-' && digits(5, 1)) return true;
  const std::vector<std::string> words = words_in(text);
  if (words.empty()) return false;
  const std::string& first = words.front();
  if (words.size() == 1) return first == "now" || first == "today" || first == "yesterday";
  if (words.back() == "ago") return true;
  if (first == "last") return words.size() == 2 && unit_named(words.back()).has_value();
  return (first == "today" || first == "yesterday") && words[1].front() >= '0' && words[1].front() <= '9';
}

}  // namespace icecore::cli
