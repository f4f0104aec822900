// Checking a store, open or not, and repairing one.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "opening.hpp"

namespace {

using namespace icecore::c;

icecore_bytes optional_bytes(const std::optional<std::string>& text) {
  return text ? icecore::c::bytes(std::string_view(*text)) : icecore_bytes{nullptr, 0};
}

/// Views of `from`, which must stay alive.
std::vector<icecore_damage> views_of(const std::vector<icecore::damage>& from) {
  std::vector<icecore_damage> views;
  views.reserve(from.size());
  for (const icecore::damage& place : from) {
    views.push_back({place.offset, place.structure.c_str(), place.what.c_str(), optional_bytes(place.key),
                     place.version.value_or(0), place.file.c_str()});
  }
  return views;
}

/// The structure that C sees, followed by the damages it points to.
struct owned_report : icecore_verify_report {
  explicit owned_report(icecore::verify_report from)
      : icecore_verify_report{}, report(std::move(from)), damage_list(views_of(report.damages)) {
    damage_count = damage_list.size();
    damages = damage_list.data();
    segments = report.segments;
    entries = report.entries;
    records = report.records;
    tags = report.tags;
    bytes = report.bytes;
    queries = report.queries;
  }
  owned_report(const owned_report&) = delete;
  owned_report& operator=(const owned_report&) = delete;

  icecore::verify_report report;
  std::vector<icecore_damage> damage_list;
};

struct owned_repair_report : icecore_repair_report {
  explicit owned_repair_report(icecore::repair_report from)
      : icecore_repair_report{},
        report(std::move(from)),
        loss_list(views_of(report.losses)),
        repaired_list(views_of(report.repaired)) {
    for (const auto& u : report.unknown) {
      unknown_list.push_back({icecore::c::bytes(std::string_view(u.key)), u.first, u.last});
    }
    loss_count = loss_list.size();
    losses = loss_list.data();
    repaired_count = repaired_list.size();
    repaired = repaired_list.data();
    unknown_count = unknown_list.size();
    unknown = unknown_list.data();
    keys = report.keys;
    records = report.records;
    tags = report.tags;
    clock = report.clock;
    queries = report.queries;
    feeds = report.feeds;
    holds = report.holds;
  }
  owned_repair_report(const owned_repair_report&) = delete;
  owned_repair_report& operator=(const owned_repair_report&) = delete;

  icecore::repair_report report;
  std::vector<icecore_damage> loss_list;
  std::vector<icecore_damage> repaired_list;
  std::vector<icecore_unknown_versions> unknown_list;
};

int verify_as(const char* function, const char* path, const icecore_placement* moved, std::size_t moved_count,
              icecore_progress_function on_progress, void* progress_context, icecore_verify_report** report) {
  if (report != nullptr) *report = nullptr;
  return guarded([&] {
    require(path, function, "path");
    require(report, function, "report");
    *report = new owned_report(icecore::verify_file(path, progress_of(on_progress, progress_context),
                                                    placements_of(moved, moved_count, function)));
  });
}

int repair_as(const char* function, const char* damaged, const icecore_placement* moved, std::size_t moved_count,
              const char* repaired, const icecore_placement* placements, std::size_t placement_count,
              icecore_progress_function on_progress, void* progress_context, icecore_repair_report** report) {
  if (report != nullptr) *report = nullptr;
  return guarded([&] {
    require(damaged, function, "damaged");
    require(repaired, function, "repaired");
    require(report, function, "report");
    *report =
        new owned_repair_report(icecore::repair({.from = damaged,
                                                 .to = repaired,
                                                 .on_progress = progress_of(on_progress, progress_context),
                                                 .placements = placements_of(placements, placement_count, function),
                                                 .moved = placements_of(moved, moved_count, function)}));
  });
}

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
  return verify_as("icecore_verify_file", path, nullptr, 0, on_progress, progress_context, report);
}

int icecore_verify_files(const char* path, const icecore_placement* moved, std::size_t moved_count,
                         icecore_progress_function on_progress, void* progress_context,
                         icecore_verify_report** report) {
  return verify_as("icecore_verify_files", path, moved, moved_count, on_progress, progress_context, report);
}

void icecore_verify_report_free(icecore_verify_report* report) { delete static_cast<owned_report*>(report); }

int icecore_repair(const char* damaged, const char* repaired, icecore_progress_function on_progress,
                   void* progress_context, icecore_repair_report** report) {
  return repair_as("icecore_repair", damaged, nullptr, 0, repaired, nullptr, 0, on_progress, progress_context, report);
}

int icecore_repair_files(const char* damaged, const icecore_placement* moved, std::size_t moved_count,
                         const char* repaired, const icecore_placement* placements, std::size_t placement_count,
                         icecore_progress_function on_progress, void* progress_context,
                         icecore_repair_report** report) {
  return repair_as("icecore_repair_files", damaged, moved, moved_count, repaired, placements, placement_count,
                   on_progress, progress_context, report);
}

void icecore_repair_report_free(icecore_repair_report* report) { delete static_cast<owned_repair_report*>(report); }

}  // extern "C"
