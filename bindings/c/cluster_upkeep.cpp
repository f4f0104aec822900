// Packing the stores of all ranks of a cluster, and which versions they keep.
#include "cluster_support.hpp"
#include "upkeep.hpp"

using namespace icecore::c;

extern "C" {

int icecore_cluster_compact(icecore_cluster* cluster, const icecore_compaction_options* how,
                            icecore_compaction_report* report) {
  return pack(cluster, "cluster", how, report, "icecore_cluster_compact",
              [&](const icecore::compaction_options& wanted) { return cluster->cluster.compact(wanted); });
}

int icecore_cluster_set_retention(icecore_cluster* cluster, const icecore_retention* retention) {
  return guarded([&] {
    require(cluster, "icecore_cluster_set_retention", "cluster");
    cluster->cluster.set_retention(retention_of(retention, "icecore_cluster_set_retention"));
  });
}

int icecore_cluster_get_retention(icecore_cluster* cluster, icecore_retention* retention) {
  return guarded([&] {
    require(cluster, "icecore_cluster_get_retention", "cluster");
    require_result(retention, "icecore_cluster_get_retention");
    write_structure(retention, retention_in_c(cluster->cluster.retention()));
  });
}

int icecore_cluster_hold_version(icecore_cluster* cluster, const void* name, size_t name_size, icecore_version at,
                                 icecore_version* held) {
  if (held != nullptr) *held = 0;
  return guarded([&] {
    constexpr auto function = "icecore_cluster_hold_version";
    require(cluster, function, "cluster");
    const std::optional<icecore_version> version = at == ICECORE_VERSION_PRESENT ? std::nullopt : std::optional(at);
    const icecore_version found = cluster->cluster.hold_version(view(name, name_size, function, "name"), version);
    if (held != nullptr) *held = found;
  });
}

int icecore_cluster_release_version(icecore_cluster* cluster, const void* name, size_t name_size) {
  return guarded([&] {
    constexpr auto function = "icecore_cluster_release_version";
    require(cluster, function, "cluster");
    cluster->cluster.release_version(view(name, name_size, function, "name"));
  });
}

int icecore_cluster_held_versions(const icecore_cluster* cluster, icecore_holds** holds) {
  if (holds != nullptr) *holds = nullptr;
  return guarded([&] {
    require(cluster, "icecore_cluster_held_versions", "cluster");
    require(holds, "icecore_cluster_held_versions", "holds");
    *holds = new icecore_holds(cluster->cluster.held_versions());
  });
}

int icecore_cluster_forget(icecore_cluster* cluster, const icecore_bytes* keys, size_t key_count,
                           const icecore_bytes* prefixes, size_t prefix_count, const void* note, size_t note_size,
                           icecore_forget_report* report) {
  return guarded([&] {
    constexpr auto name = "icecore_cluster_forget";
    require(cluster, name, "cluster");
    forget({keys, key_count}, {prefixes, prefix_count}, view(note, note_size, name, "note"), report, name,
           [&](const icecore::forget_request& what) { return cluster->cluster.forget(what); });
  });
}

}  // extern "C"
