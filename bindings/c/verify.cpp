// Checking a store, open or not.
#include <memory>
#include <vector>

#include "support.hpp"

namespace {

using namespace icecore::c;

/// The structure that C sees, with the damages it points to behind it.
struct owned_report : icecore_verify_report {
  explicit owned_report(icecore::verify_report from) : icecore_verify_report{}, report(std::move(from)) {
    damage_list.reserve(report.damages.size());
    for (const icecore::damage& place : report.damages) {
      const icecore_bytes key = place.key ? icecore::c::bytes(std::string_view(*place.key)) : icecore_bytes{nullptr, 0};
      damage_list.push_back(
          {place.offset, place.structure.c_str(), place.what.c_str(), key, place.version.value_or(0)});
    }
    damage_count = damage_list.size();
    damages = damage_list.data();
    segments = report.segments;
    entries = report.entries;
    records = report.records;
    tags = report.tags;
    bytes = report.bytes;
  }
  owned_report(const owned_report&) = delete;
  owned_report& operator=(const owned_report&) = delete;

  icecore::verify_report report;
  std::vector<icecore_damage> damage_list;
};

}  // namespace

extern "C" {

int icecore_verify(const icecore_store* store, icecore_progress_function on_progress, void* progress_context,
                   icecore_verify_report** report) {
  if (report != nullptr) *report = nullptr;
  return guarded([&] {
    require(store, "icecore_verify", "store");
    require(report, "icecore_verify", "report");
    *report = new owned_report(store->store.verify(progress_of(on_progress, progress_context)));
  });
}

int icecore_verify_file(const char* path, icecore_progress_function on_progress, void* progress_context,
                        icecore_verify_report** report) {
  if (report != nullptr) *report = nullptr;
  return guarded([&] {
    require(path, "icecore_verify_file", "path");
    require(report, "icecore_verify_file", "report");
    *report = new owned_report(icecore::verify_file(path, progress_of(on_progress, progress_context)));
  });
}

void icecore_verify_report_free(icecore_verify_report* report) { delete static_cast<owned_report*>(report); }

}  // extern "C"
