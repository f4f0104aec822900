// Synchronising the ranks of a cluster, and information about it.
#include "cluster_support.hpp"
#include "opening.hpp"

namespace {

using namespace icecore::c;

std::span<const int> ranks_of(const int* ranks, size_t count, const char* function) {
  if (count != 0) require(ranks, function, "ranks");
  return {ranks, count};
}

}  // namespace

extern "C" {

int icecore_cluster_fence(icecore_cluster* cluster) {
  return guarded([&] {
    require(cluster, "icecore_cluster_fence", "cluster");
    cluster->cluster.fence();
  });
}

int icecore_cluster_barrier(icecore_cluster* cluster, int level) {
  return guarded([&] {
    require(cluster, "icecore_cluster_barrier", "cluster");
    cluster->cluster.barrier(enumerator(level, icecore::barrier_level::memory, icecore::barrier_level::storage,
                                        "icecore_cluster_barrier", "level"));
  });
}

int icecore_cluster_set_consistency(icecore_cluster* cluster, int mode) {
  return guarded([&] {
    require(cluster, "icecore_cluster_set_consistency", "cluster");
    cluster->cluster.consistency(enumerator(mode, icecore::consistency::relaxed, icecore::consistency::sequential,
                                            "icecore_cluster_set_consistency", "mode"));
  });
}

int icecore_cluster_protect(icecore_cluster* cluster, int mode) {
  return guarded([&] {
    require(cluster, "icecore_cluster_protect", "cluster");
    cluster->cluster.protect(enumerator(mode, icecore::protection::read_write, icecore::protection::update_only,
                                        "icecore_cluster_protect", "mode"));
  });
}

int icecore_cluster_consistency(const icecore_cluster* cluster, int* mode) {
  if (mode != nullptr) *mode = 0;
  return guarded([&] {
    require(cluster, "icecore_cluster_consistency", "cluster");
    require(mode, "icecore_cluster_consistency", "mode");
    *mode = static_cast<int>(cluster->cluster.consistency());
  });
}

int icecore_cluster_protection(const icecore_cluster* cluster, int* mode) {
  if (mode != nullptr) *mode = 0;
  return guarded([&] {
    require(cluster, "icecore_cluster_protection", "cluster");
    require(mode, "icecore_cluster_protection", "mode");
    *mode = static_cast<int>(cluster->cluster.protection());
  });
}

int icecore_cluster_signal_notify(icecore_cluster* cluster, int signum, const int* ranks, size_t count) {
  return guarded([&] {
    require(cluster, "icecore_cluster_signal_notify", "cluster");
    cluster->cluster.signal_notify(signum, ranks_of(ranks, count, "icecore_cluster_signal_notify"));
  });
}

int icecore_cluster_signal_wait(icecore_cluster* cluster, int signum, const int* ranks, size_t count) {
  return guarded([&] {
    require(cluster, "icecore_cluster_signal_wait", "cluster");
    cluster->cluster.signal_wait(signum, ranks_of(ranks, count, "icecore_cluster_signal_wait"));
  });
}

// Callers may only pass an open handle, so the next three functions cannot fail.
int icecore_cluster_rank(const icecore_cluster* cluster) { return cluster == nullptr ? -1 : cluster->cluster.rank(); }

int icecore_cluster_size(const icecore_cluster* cluster) { return cluster == nullptr ? -1 : cluster->cluster.size(); }

int icecore_cluster_has_progress_thread(const icecore_cluster* cluster) {
  return cluster != nullptr && cluster->cluster.has_progress_thread() ? 1 : 0;
}

int icecore_cluster_owner_of(const icecore_cluster* cluster, const void* key, size_t key_size, int* rank) {
  if (rank != nullptr) *rank = 0;
  return guarded([&] {
    require(cluster, "icecore_cluster_owner_of", "cluster");
    require(rank, "icecore_cluster_owner_of", "rank");
    *rank = cluster->cluster.owner_of(view(key, key_size, "icecore_cluster_owner_of", "key"));
  });
}

int icecore_cluster_group_of(const icecore_cluster* cluster, int rank, int* group) {
  if (group != nullptr) *group = 0;
  return guarded([&] {
    require(cluster, "icecore_cluster_group_of", "cluster");
    require(group, "icecore_cluster_group_of", "group");
    *group = cluster->cluster.group_of(rank);
  });
}

int icecore_cluster_reaches_directly(const icecore_cluster* cluster, int rank, int* direct) {
  if (direct != nullptr) *direct = 0;
  return guarded([&] {
    require(cluster, "icecore_cluster_reaches_directly", "cluster");
    require(direct, "icecore_cluster_reaches_directly", "direct");
    *direct = cluster->cluster.reaches_directly(rank) ? 1 : 0;
  });
}

const char* icecore_cluster_path(const icecore_cluster* cluster) {
  return cluster == nullptr ? nullptr : cluster->path.c_str();
}

}  // extern "C"
