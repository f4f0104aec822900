// What packing a store and its retention are in Python, for stores and clusters.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "arguments.hpp"
#include "icecore/compaction.hpp"
#include "icecore/forgetting.hpp"
#include "icecore/retention.hpp"
#include "python_types.hpp"

namespace icecore::python {

[[nodiscard]] inline nb::dict dict_of(const compaction_report& done) {
  nb::dict d;
  d["packed"] = done.packed;
  d["keys"] = done.keys;
  d["records"] = done.records;
  d["strata"] = done.strata;
  d["up_to"] = done.up_to;
  d["bytes_before"] = done.bytes_before;
  d["bytes_after"] = done.bytes_after;
  d["bytes_written"] = done.bytes_written;
  d["versions_expired"] = done.versions_expired;
  d["records_dropped"] = done.records_dropped;
  d["erased"] = done.erased;
  d["writers_stopped"] = std::chrono::duration<double>(done.writers_stopped).count();
  return d;
}

[[nodiscard]] inline nb::dict dict_of(const retention& kept) {
  nb::dict d;
  d["tagged"] = kept.tagged;
  d["newest"] = kept.newest;
  d["seconds"] = kept.younger_than.count();
  d["hourly"] = kept.hourly;
  d["daily"] = kept.daily;
  d["weekly"] = kept.weekly;
  return d;
}

[[nodiscard]] inline nb::dict dict_of(const forget_report& done) {
  nb::dict d;
  d["up_to"] = done.up_to;
  d["keys"] = done.keys;
  d["tag"] = done.tag;
  return d;
}

/// What compaction_arguments.wanted() returns.
using wanted_compaction = std::tuple<bool, bool, bool, unsigned, int, int, std::uint64_t, std::uint64_t>;

[[nodiscard]] inline compaction_options options_of(const wanted_compaction& wanted, progress_adapter& progress) {
  const auto& [whole, dry_run, only_if_expiring, threads, compression, level, per_second, at_once] = wanted;
  return {.whole = whole,
          .dry_run = dry_run,
          .only_if_expiring = only_if_expiring,
          .threads = threads,
          .bytes_per_second = per_second,
          .bytes_at_once = at_once,
          .compression = static_cast<icecore::compression>(compression),
          .compression_level = level,
          .on_progress = progress.function()};
}

/// Name, version, and when it was made, of each.
[[nodiscard]] inline nb::list tuples_of(const std::vector<held_version>& held) {
  nb::list all;
  for (const held_version& each : held) {
    const auto created = std::chrono::duration_cast<std::chrono::nanoseconds>(each.created.time_since_epoch());
    all.append(nb::make_tuple(new_text(each.name), each.version, created.count()));
  }
  return all;
}

/// What a caller gives in a list or the like. `what` is named in errors.
[[nodiscard]] inline std::vector<std::string> strings_of(const many_bytes_like& given, const char* what) {
  std::vector<std::string> all;
  for (const nb::handle each : nb::iter(given)) all.emplace_back(bytes_argument(each.ptr(), what).bytes());
  return all;
}

}  // namespace icecore::python
