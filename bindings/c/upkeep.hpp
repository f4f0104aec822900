// What packing a store and its retention are in C, for stores and clusters.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "icecore/compaction.hpp"
#include "icecore/retention.hpp"
#include "support.hpp"

namespace icecore::c {

[[nodiscard]] inline icecore_compaction_report report_of(const compaction_report& done) noexcept {
  icecore_compaction_report result{};
  result.packed = done.packed ? 1 : 0;
  result.keys = done.keys;
  result.records = done.records;
  result.strata = done.strata;
  result.up_to = done.up_to;
  result.bytes_before = done.bytes_before;
  result.bytes_after = done.bytes_after;
  result.bytes_written = done.bytes_written;
  result.versions_expired = done.versions_expired;
  result.records_dropped = done.records_dropped;
  result.erased = done.erased ? 1 : 0;
  result.writers_stopped_us = static_cast<std::uint64_t>(done.writers_stopped.count());
  return result;
}

[[nodiscard]] inline icecore_retention retention_in_c(const retention& kept) noexcept {
  icecore_retention result{};
  result.tagged = kept.tagged ? 1 : 0;
  result.newest = kept.newest;
  result.younger_than_seconds = static_cast<std::uint64_t>(kept.younger_than.count());
  result.hourly = kept.hourly;
  result.daily = kept.daily;
  result.weekly = kept.weekly;
  return result;
}

/// `function` is named in errors.
[[nodiscard]] inline retention retention_of(const icecore_retention* given, const char* function) {
  const icecore_retention set = read_structure(given, icecore_retention{}, function);
  constexpr auto most = static_cast<std::uint64_t>(std::chrono::seconds::max().count());
  if (set.younger_than_seconds > most) {
    throw error(errc::invalid_argument, std::string(function) + ": younger_than_seconds is " +
                                            std::to_string(set.younger_than_seconds) + "; it must be at most " +
                                            std::to_string(most));
  }
  return {.tagged = set.tagged != 0,
          .newest = set.newest,
          .younger_than = std::chrono::seconds(set.younger_than_seconds),
          .hourly = set.hourly,
          .daily = set.daily,
          .weekly = set.weekly};
}

}  // namespace icecore::c
