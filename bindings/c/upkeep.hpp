// What packing a store and its retention are in C, for stores and clusters.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "icecore/compaction.hpp"
#include "icecore/forgetting.hpp"
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

[[nodiscard]] inline icecore_compaction_options compaction_defaults() noexcept {
  icecore_compaction_options defaults{};
  defaults.struct_size = sizeof(defaults);
  return defaults;
}

/// The caller's options, or the defaults for NULL. `function` is named in errors.
[[nodiscard]] inline compaction_options compaction_options_of(const icecore_compaction_options* given,
                                                              const char* function) {
  const icecore_compaction_options set =
      given == nullptr ? compaction_defaults() : read_structure(given, compaction_defaults(), function);
  compaction_options how{.whole = set.whole != 0,
                         .dry_run = set.dry_run != 0,
                         .only_if_expiring = set.only_if_expiring != 0,
                         .threads = set.threads,
                         .bytes_per_second = set.bytes_per_second,
                         .bytes_at_once = set.bytes_at_once,
                         .on_progress = progress_of(set.on_progress, set.progress_context)};
  if (set.compression_level != 0) {
    how.compression = compression::zstd;
    how.compression_level = set.compression_level;
  }
  return how;
}

/// Packs by `work`, which gets the options, and tells what was done if the caller wants to know. `packed`, which `name`
/// says what it is, must not be NULL. `function` is named in errors.
template <class Work>
int pack(const void* packed, const char* name, const icecore_compaction_options* how, icecore_compaction_report* report,
         const char* function, Work&& work) noexcept {
  return guarded([&] {
    require(packed, function, name);
    if (report != nullptr) {
      require_result(report, function);
      write_structure(report, icecore_compaction_report{});
    }
    const compaction_report done = work(compaction_options_of(how, function));
    if (report != nullptr) write_structure(report, report_of(done));
  });
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

/// Keys as a caller gives them.
struct given_keys {
  const icecore_bytes* all;
  std::size_t count;

  /// `function` and `what` are named in errors.
  [[nodiscard]] std::vector<std::string> strings(const char* function, const char* what) const {
    if (count != 0) require(all, function, what);
    std::vector<std::string> copies;
    for (std::size_t i = 0; i < count; ++i) copies.emplace_back(view(all[i].data, all[i].size, function, what));
    return copies;
  }
};

/// Makes the request, calls forget(request), and tells what it reports if the caller wants to know.
template <class Forget>
void forget(const given_keys& keys, const given_keys& prefixes, std::string_view note, icecore_forget_report* report,
            const char* function, Forget forget) {
  if (report != nullptr) {
    require_result(report, function);
    write_structure(report, icecore_forget_report{});
  }
  const forget_report done = forget(forget_request{
      .keys = keys.strings(function, "keys"), .prefixes = prefixes.strings(function, "prefixes"), .note = note});
  if (report == nullptr) return;
  icecore_forget_report told{};
  told.up_to = done.up_to;
  told.keys = done.keys;
  copy_text(told.tag, done.tag);
  write_structure(report, told);
}

}  // namespace icecore::c

/// The list that icecore_holds_close() frees.
struct icecore_holds {
  explicit icecore_holds(std::vector<icecore::held_version> from) : held(std::move(from)) {
    all.reserve(held.size());
    for (const icecore::held_version& each : held) {
      const auto created = std::chrono::duration_cast<std::chrono::nanoseconds>(each.created.time_since_epoch());
      all.push_back({icecore::c::bytes(std::string_view(each.name)), each.version, created.count()});
    }
  }

  std::vector<icecore::held_version> held;
  std::vector<icecore_hold> all;  // with views into these
  std::size_t next = 0;
};
