#include "line/time.hpp"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <limits>

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
                          "2024-05-01T14:00:00+02:00 or @SECONDS since 1970; years 1678 to 2261",
                          shown(text, 60)));
}

std::int64_t to_ns(std::int64_t seconds, std::int64_t fraction_ns, std::string_view text) {
  constexpr std::int64_t limit = std::numeric_limits<std::int64_t>::max() / ns_per_second;
  if (seconds >= limit || seconds <= -limit) fail(text);
  return seconds * ns_per_second + fraction_ns;
}

std::int64_t parse_seconds(std::string_view text) {
  std::int64_t seconds = 0;
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data() + 1, end, seconds);
  if (failure != std::errc{} || stop != end) fail(text);
  return to_ns(seconds, 0, text);
}

}  // namespace

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

}  // namespace icecore::cli
