// The C++ halves of the Python objects of icecore.mpi, and the functions that bind them, one per file.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cluster_session.hpp"
#include "objects.hpp"

namespace icecore::python {

/// icecore._native_mpi.Cluster
struct cluster_object {
  std::shared_ptr<cluster_session> owner;
};

/// icecore._native_mpi.Snapshot: one version of the cluster between bounds.
struct cluster_snapshot_object {
  std::shared_ptr<cluster_session> owner;
  icecore::version at;
  key_bounds bounds;

  [[nodiscard]] bool bounded() const noexcept { return bounds.from.has_value() || bounds.to.has_value(); }
};

/// icecore._native_mpi.Checkpoint: a checkpoint that is being written or has been written.
struct checkpoint_object {
  std::shared_ptr<cluster_session> owner;
  icecore::checkpoint_event event;
};

/// Runs `call(cluster)` without the GIL: any call of a cluster may wait for another rank.
template <typename Call>
auto run(cluster_session& owner, const Call& call) {
  icecore::cluster& used = owner.use();
  const without_gil released(owner);
  return call(used);
}

/// A new bytes object, or None.
[[nodiscard]] inline bytes_or_none new_value(const std::optional<std::string>& value) {
  if (!value) return nb::none();
  return nb::object(nb::bytes(value->data(), value->size()));
}

[[nodiscard]] inline tag_tuple new_tag(const tag_info& tag) {
  return nb::object(nb::make_tuple(tag.version, tag.time_ns, new_text(tag.name), new_text(tag.note)));
}

using cluster_class = nb::class_<cluster_object>;
using cluster_snapshot_class = nb::class_<cluster_snapshot_object>;

[[nodiscard]] cluster_class bind_cluster(nb::module_& m);                          // cluster.cpp
void bind_opening(cluster_class& cluster);                                         // cluster_opening.cpp
void bind_checkpoint(nb::module_& m, cluster_class& cluster);                      // cluster_checkpoint.cpp
[[nodiscard]] cluster_snapshot_class bind_cluster_snapshot(nb::module_& m);        // cluster_snapshot.cpp
void bind_cluster_upkeep(cluster_class& cluster);                                  // cluster_upkeep.cpp
void bind_cluster_bulk(cluster_class& cluster, cluster_snapshot_class& snapshot);  // cluster_bulk.cpp
void bind_cluster_extraction(nb::module_& m, cluster_snapshot_class& snapshot);    // cluster_extraction.cpp

}  // namespace icecore::python
