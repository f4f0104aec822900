// Tags and versions of a cluster.
#include "cluster_support.hpp"
#include "tags.hpp"

using namespace icecore::c;

extern "C" {

int icecore_cluster_tag_now(icecore_cluster* cluster, icecore_version* closed) {
  if (closed != nullptr) *closed = 0;
  return guarded([&] {
    require(cluster, "icecore_cluster_tag_now", "cluster");
    const icecore_version version = cluster->cluster.tag();
    if (closed != nullptr) *closed = version;
  });
}

int icecore_cluster_tag_with(icecore_cluster* cluster, const icecore_tag_options* options, icecore_version* closed) {
  if (closed != nullptr) *closed = 0;
  return guarded([&] {
    require(cluster, "icecore_cluster_tag_with", "cluster");
    const icecore_version version = cluster->cluster.tag(label_of(options, "icecore_cluster_tag_with"));
    if (closed != nullptr) *closed = version;
  });
}

int icecore_cluster_clock(const icecore_cluster* cluster, icecore_version* clock) {
  if (clock != nullptr) *clock = 0;
  return guarded([&] {
    require(cluster, "icecore_cluster_clock", "cluster");
    require(clock, "icecore_cluster_clock", "clock");
    *clock = cluster->cluster.clock();
  });
}

int icecore_cluster_find_tag(const icecore_cluster* cluster, const void* name, size_t name_size, icecore_tag** tag) {
  if (tag != nullptr) *tag = nullptr;
  return guarded([&] {
    require(cluster, "icecore_cluster_find_tag", "cluster");
    require(tag, "icecore_cluster_find_tag", "tag");
    hand_out(cluster->cluster.find_tag(view(name, name_size, "icecore_cluster_find_tag", "name")), tag);
  });
}

int icecore_cluster_tags_open(const icecore_cluster* cluster, icecore_tags** tags) {
  if (tags != nullptr) *tags = nullptr;
  return guarded([&] {
    require(cluster, "icecore_cluster_tags_open", "cluster");
    require(tags, "icecore_cluster_tags_open", "tags");
    *tags = list_of(cluster->cluster.tags());
  });
}

}  // extern "C"
