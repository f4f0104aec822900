// Writing to a cluster and finding in it.
#include <cstdlib>
#include <new>

#include "cluster_support.hpp"

namespace icecore::c {

icecore_bytes copy_of(const std::optional<std::string>& value) {
  if (!value) return {nullptr, 0};
  void* const copy = std::malloc(std::max<std::size_t>(value->size(), 1));  // an empty value is not NULL (C3)
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, value->data(), value->size());  // NOLINT: bytes with their number, not a string
  return {copy, value->size()};
}

void prepare_find_many(std::size_t count, const icecore_bytes* keys, icecore_bytes* values, const char* function) {
  if (count == 0) return;
  require(values, function, "values");
  std::fill_n(values, count, icecore_bytes{nullptr, 0});
  require(keys, function, "keys");
}

std::vector<std::string_view> views(std::size_t count, const icecore_bytes* bytes, const char* function,
                                    const char* argument) {
  if (count != 0) require(bytes, function, argument);
  std::vector<std::string_view> result;
  result.reserve(count);
  for (std::size_t i = 0; i < count; ++i) result.push_back(view(bytes[i].data, bytes[i].size, function, argument));
  return result;
}

void hand_out(const std::vector<std::optional<std::string>>& found, icecore_bytes* values) {
  try {
    for (std::size_t i = 0; i < found.size(); ++i) values[i] = copy_of(found[i]);
  } catch (...) {
    icecore_cluster_values_free(values, found.size());
    throw;
  }
}

}  // namespace icecore::c

using namespace icecore::c;

extern "C" {

int icecore_cluster_insert(icecore_cluster* cluster, const void* key, size_t key_size, const void* value,
                           size_t value_size, icecore_version* version) {
  if (version != nullptr) *version = 0;
  return guarded([&] {
    require(cluster, "icecore_cluster_insert", "cluster");
    const icecore_version written = cluster->cluster.insert(view(key, key_size, "icecore_cluster_insert", "key"),
                                                            view(value, value_size, "icecore_cluster_insert", "value"));
    if (version != nullptr) *version = written;
  });
}

int icecore_cluster_remove(icecore_cluster* cluster, const void* key, size_t key_size, icecore_version* version) {
  if (version != nullptr) *version = 0;
  return guarded([&] {
    require(cluster, "icecore_cluster_remove", "cluster");
    const icecore_version written = cluster->cluster.remove(view(key, key_size, "icecore_cluster_remove", "key"));
    if (version != nullptr) *version = written;
  });
}

int icecore_cluster_insert_many(icecore_cluster* cluster, size_t count, const icecore_bytes* keys,
                                const icecore_bytes* values, icecore_version* version) {
  if (version != nullptr) *version = 0;
  return guarded([&] {
    require(cluster, "icecore_cluster_insert_many", "cluster");
    const auto key_views = views(count, keys, "icecore_cluster_insert_many", "keys");
    const auto value_views = views(count, values, "icecore_cluster_insert_many", "values");
    std::vector<icecore::item> items(count);
    for (std::size_t i = 0; i < count; ++i) items[i] = {key_views[i], value_views[i]};
    const icecore_version written = cluster->cluster.insert_many(items);
    if (version != nullptr) *version = written;
  });
}

int icecore_cluster_apply(icecore_cluster* cluster, const icecore_batch* batch, icecore_version* version) {
  if (version != nullptr) *version = 0;
  return guarded([&] {
    require(cluster, "icecore_cluster_apply", "cluster");
    require(batch, "icecore_cluster_apply", "batch");
    const icecore_version written = cluster->cluster.apply(batch->operations);
    if (version != nullptr) *version = written;
  });
}

int icecore_cluster_insert_new(icecore_cluster* cluster, const void* key, size_t key_size, const void* value,
                               size_t value_size, icecore_version* version) {
  if (version != nullptr) *version = 0;
  return guarded([&] {
    require(cluster, "icecore_cluster_insert_new", "cluster");
    const auto written = cluster->cluster.insert_new(view(key, key_size, "icecore_cluster_insert_new", "key"),
                                                     view(value, value_size, "icecore_cluster_insert_new", "value"));
    if (version != nullptr) *version = written.value_or(0);
  });
}

int icecore_cluster_replace(icecore_cluster* cluster, const void* key, size_t key_size, const void* value,
                            size_t value_size, icecore_version expected, icecore_version* version) {
  if (version != nullptr) *version = 0;
  return guarded([&] {
    require(cluster, "icecore_cluster_replace", "cluster");
    const auto written =
        cluster->cluster.replace(view(key, key_size, "icecore_cluster_replace", "key"),
                                 view(value, value_size, "icecore_cluster_replace", "value"), expected);
    if (version != nullptr) *version = written.value_or(0);
  });
}

int icecore_cluster_apply_if(icecore_cluster* cluster, const icecore_batch* batch, icecore_version* version) {
  if (version != nullptr) *version = 0;
  return guarded([&] {
    require(cluster, "icecore_cluster_apply_if", "cluster");
    require(batch, "icecore_cluster_apply_if", "batch");
    const auto applied = cluster->cluster.apply_if(batch->operations);
    if (version != nullptr) *version = applied.value_or(0);
  });
}

int icecore_cluster_find(const icecore_cluster* cluster, const void* key, size_t key_size, icecore_bytes* value) {
  if (value != nullptr) *value = {nullptr, 0};
  return guarded([&] {
    require(cluster, "icecore_cluster_find", "cluster");
    require(value, "icecore_cluster_find", "value");
    *value = copy_of(cluster->cluster.find(view(key, key_size, "icecore_cluster_find", "key")));
  });
}

int icecore_cluster_find_at(const icecore_cluster* cluster, const void* key, size_t key_size, icecore_version at,
                            icecore_bytes* value) {
  if (value != nullptr) *value = {nullptr, 0};
  return guarded([&] {
    require(cluster, "icecore_cluster_find_at", "cluster");
    require(value, "icecore_cluster_find_at", "value");
    *value = copy_of(cluster->cluster.find(view(key, key_size, "icecore_cluster_find_at", "key"), at));
  });
}

int icecore_cluster_contains(const icecore_cluster* cluster, const void* key, size_t key_size, int* present) {
  if (present != nullptr) *present = 0;
  return guarded([&] {
    require(cluster, "icecore_cluster_contains", "cluster");
    require(present, "icecore_cluster_contains", "present");
    *present = cluster->cluster.contains(view(key, key_size, "icecore_cluster_contains", "key")) ? 1 : 0;
  });
}

int icecore_cluster_contains_at(const icecore_cluster* cluster, const void* key, size_t key_size, icecore_version at,
                                int* present) {
  if (present != nullptr) *present = 0;
  return guarded([&] {
    require(cluster, "icecore_cluster_contains_at", "cluster");
    require(present, "icecore_cluster_contains_at", "present");
    *present = cluster->cluster.contains(view(key, key_size, "icecore_cluster_contains_at", "key"), at) ? 1 : 0;
  });
}

int icecore_cluster_find_many(const icecore_cluster* cluster, size_t count, const icecore_bytes* keys,
                              icecore_bytes* values) {
  return guarded([&] {
    prepare_find_many(count, keys, values, "icecore_cluster_find_many");
    require(cluster, "icecore_cluster_find_many", "cluster");
    hand_out(cluster->cluster.find_many(views(count, keys, "icecore_cluster_find_many", "keys")), values);
  });
}

int icecore_cluster_find_many_at(const icecore_cluster* cluster, size_t count, const icecore_bytes* keys,
                                 icecore_version at, icecore_bytes* values) {
  return guarded([&] {
    prepare_find_many(count, keys, values, "icecore_cluster_find_many_at");
    require(cluster, "icecore_cluster_find_many_at", "cluster");
    hand_out(cluster->cluster.find_many(views(count, keys, "icecore_cluster_find_many_at", "keys"), at), values);
  });
}

void icecore_cluster_values_free(icecore_bytes* values, size_t count) {
  if (values == nullptr) return;
  for (size_t i = 0; i < count; ++i) {
    std::free(const_cast<void*>(values[i].data));  // copy_of() allocated it
    values[i] = {nullptr, 0};
  }
}

}  // extern "C"
