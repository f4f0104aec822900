#include "text/retention_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "text/text.hpp"

namespace icecore::cli {
namespace {

std::string age_in_words(std::uint64_t seconds) {
  const auto in = [seconds](std::uint64_t unit, const char* name) {
    return fmt::format("{} {}{}", grouped(seconds / unit), name, seconds == unit ? "" : "s");
  };
  constexpr std::uint64_t hour = 3600;
  if (seconds % (24 * hour) == 0) return in(24 * hour, "day");
  if (seconds % hour == 0) return in(hour, "hour");
  return in(1, "second");
}

}  // namespace

std::string in_words(const retention& kept) {
  if (kept.keeps_all()) return "all versions";
  std::string words;
  const auto add = [&words](const std::string& more) { words += (words.empty() ? "" : "; ") + more; };
  if (kept.tagged) add("tagged versions");
  if (kept.newest > 0) add(fmt::format("the newest {}", grouped(kept.newest)));
  if (kept.younger_than.count() > 0) {
    add(fmt::format("younger than {}", age_in_words(static_cast<std::uint64_t>(kept.younger_than.count()))));
  }
  const auto thinned = [&add](std::uint32_t count, const char* unit) {
    if (count > 0) add(fmt::format("one of each of {} {}", grouped(count), unit));
  };
  thinned(kept.hourly, "hours");
  thinned(kept.daily, "days");
  thinned(kept.weekly, "weeks");
  return words;
}

json_object retention_json(const retention& kept) {
  json_object line;
  line.add("all", kept.keeps_all()).add("tagged", kept.tagged).add("newest", kept.newest);
  line.add("younger_than_seconds", static_cast<std::uint64_t>(kept.younger_than.count()));
  line.add("hourly", std::uint64_t{kept.hourly}).add("daily", std::uint64_t{kept.daily});
  line.add("weekly", std::uint64_t{kept.weekly});
  return line;
}

std::string in_words(const version_range& range) {
  const std::string first = grouped(range.first);
  return range.end == range.first + 1 ? first : fmt::format("{} to {}", first, grouped(range.end - 1));
}

std::string in_words(std::span<const version_range> ranges) {
  constexpr std::size_t ranges_max = 10;
  const bool one = ranges.size() == 1 && ranges.front().end == ranges.front().first + 1;
  std::string words = one ? "version" : "versions";
  std::string_view before = " ";
  for (const version_range& each : ranges.first(std::min(ranges.size(), ranges_max))) {
    words += before;
    words += in_words(each);
    before = ", ";
  }
  if (ranges.size() > ranges_max) words += fmt::format(" and {} more ranges", grouped(ranges.size() - ranges_max));
  return words;
}

std::string range_line(std::string_view name, const version_range& range) {
  return json_object().add(name, json_object().add("first", range.first).add("last", range.end - 1)).text();
}

std::vector<held_version> known_holds(const store& s) {
  try {
    return s.held_versions();
  } catch (const error& e) {
    if (e.code() != errc::read_only) throw;
    return {};
  }
}

json_object hold_json(const held_version& held) {
  const auto created = std::chrono::duration_cast<std::chrono::nanoseconds>(held.created.time_since_epoch());
  json_object line;
  line.bytes("name", held.name).add("version", held.version).add("created_ns", created.count());
  return line;
}

}  // namespace icecore::cli
