// What packing a store and its retention are in Python, for stores and clusters.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>

#include "icecore/compaction.hpp"
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

}  // namespace icecore::python
