// Opening, closing, writing, and information about a store.
#include "opening.hpp"
#include "support.hpp"

namespace {

using namespace icecore::c;

icecore_durability_info durability_of(const icecore::durability_info& info) noexcept {
  icecore_durability_info result{};
  result.mode = static_cast<int>(info.mode);
  result.medium = static_cast<int>(info.medium);
  result.emulated = info.emulated ? 1 : 0;
  copy_text(result.flush_method, info.flush_method);
  copy_text(result.filesystem, info.filesystem);
  result.deferred = info.deferred ? 1 : 0;
  return result;
}

icecore_statistics statistics_of(const icecore::statistics& now) noexcept {
  icecore_statistics result{};
  result.keys = now.keys;
  result.records = now.records;
  result.removes = now.removes;
  result.tags = now.tags;
  result.clock = now.clock;
  result.key_bytes = now.key_bytes;
  result.value_bytes = now.value_bytes;
  result.used_bytes = now.used_bytes;
  result.file_bytes = now.file_bytes;
  result.index_bytes = now.index_bytes;
  result.recovery_seconds = now.recovery_seconds;
  result.recovered_from_crash = now.recovered_from_crash ? 1 : 0;
  result.index = static_cast<int>(now.index);
  result.format_major = now.format_major;
  result.format_minor = now.format_minor;
  copy_text(result.pool_id, now.pool_id);
  result.file_count = static_cast<unsigned>(now.files.size());
  result.recovered_instantly = now.recovered_instantly ? 1 : 0;
  result.pins = now.pins;
  result.packed_keys = now.packed_keys;
  result.packed_records = now.packed_records;
  result.packed_bytes = now.packed_bytes;
  result.strata = now.strata;
  result.packed_inflated_bytes = now.packed_inflated_bytes;
  result.block_cache_bytes_max = now.block_cache_bytes_max;
  result.block_cache_bytes = now.block_cache_bytes;
  result.block_cache_hits = now.block_cache_hits;
  result.block_cache_misses = now.block_cache_misses;
  result.keys_at_least = now.keys_at_least;
  result.free_bytes = now.free_bytes;
  result.live_bytes = now.live_bytes;
  result.garbage_bytes = now.garbage_bytes;
  result.waiting_bytes = now.waiting_bytes;
  result.oldest_pin = now.oldest_pin.value_or(0);
  result.oldest_pin_seconds = now.oldest_pin_seconds;
  result.is_any_held = now.oldest_held ? 1 : 0;
  result.oldest_held = now.oldest_held.value_or(0);
  result.given_bytes = now.given_bytes;
  result.written_bytes = now.written_bytes;
  result.write_amplification = now.write_amplification();
  return result;
}

}  // namespace

extern "C" {

int icecore_open(const char* path, const icecore_options* options, icecore_store** store) {
  if (store != nullptr) *store = nullptr;
  return guarded([&] {
    require(path, "icecore_open", "path");
    require(store, "icecore_open", "store");
    icecore::store opened(path, options_of(options, "icecore_open"));
    *store = new icecore_store{std::move(opened), path};
  });
}

int icecore_close(icecore_store* store) {
  if (store == nullptr) return ICECORE_OK;
  const int code = guarded([&] { store->store.close(); });
  delete store;
  return code;
}

int icecore_insert(icecore_store* store, const void* key, size_t key_size, const void* value, size_t value_size,
                   icecore_version* version) {
  if (version != nullptr) *version = 0;
  return guarded([&] {
    require(store, "icecore_insert", "store");
    const icecore_version written = store->store.insert(view(key, key_size, "icecore_insert", "key"),
                                                        view(value, value_size, "icecore_insert", "value"));
    if (version != nullptr) *version = written;
  });
}

int icecore_remove(icecore_store* store, const void* key, size_t key_size, icecore_version* version) {
  if (version != nullptr) *version = 0;
  return guarded([&] {
    require(store, "icecore_remove", "store");
    const auto removed = store->store.remove(view(key, key_size, "icecore_remove", "key"));
    if (version != nullptr) *version = removed.value_or(0);
  });
}

int icecore_insert_new(icecore_store* store, const void* key, size_t key_size, const void* value, size_t value_size,
                       icecore_version* version) {
  if (version != nullptr) *version = 0;
  return guarded([&] {
    require(store, "icecore_insert_new", "store");
    const auto written = store->store.insert_new(view(key, key_size, "icecore_insert_new", "key"),
                                                 view(value, value_size, "icecore_insert_new", "value"));
    if (version != nullptr) *version = written.value_or(0);
  });
}

int icecore_replace(icecore_store* store, const void* key, size_t key_size, const void* value, size_t value_size,
                    icecore_version expected, icecore_version* version) {
  if (version != nullptr) *version = 0;
  return guarded([&] {
    require(store, "icecore_replace", "store");
    const auto written = store->store.replace(view(key, key_size, "icecore_replace", "key"),
                                              view(value, value_size, "icecore_replace", "value"), expected);
    if (version != nullptr) *version = written.value_or(0);
  });
}

int icecore_batch_new(icecore_batch** batch) {
  if (batch != nullptr) *batch = nullptr;
  return guarded([&] {
    require(batch, "icecore_batch_new", "batch");
    *batch = new icecore_batch{};
  });
}

void icecore_batch_free(icecore_batch* batch) { delete batch; }

int icecore_batch_insert(icecore_batch* batch, const void* key, size_t key_size, const void* value, size_t value_size) {
  return guarded([&] {
    require(batch, "icecore_batch_insert", "batch");
    batch->operations.insert(view(key, key_size, "icecore_batch_insert", "key"),
                             view(value, value_size, "icecore_batch_insert", "value"));
  });
}

int icecore_batch_remove(icecore_batch* batch, const void* key, size_t key_size) {
  return guarded([&] {
    require(batch, "icecore_batch_remove", "batch");
    batch->operations.remove(view(key, key_size, "icecore_batch_remove", "key"));
  });
}

int icecore_batch_insert_new(icecore_batch* batch, const void* key, size_t key_size, const void* value,
                             size_t value_size) {
  return guarded([&] {
    require(batch, "icecore_batch_insert_new", "batch");
    batch->operations.insert_new(view(key, key_size, "icecore_batch_insert_new", "key"),
                                 view(value, value_size, "icecore_batch_insert_new", "value"));
  });
}

int icecore_batch_replace(icecore_batch* batch, const void* key, size_t key_size, const void* value, size_t value_size,
                          icecore_version expected) {
  return guarded([&] {
    require(batch, "icecore_batch_replace", "batch");
    batch->operations.replace(view(key, key_size, "icecore_batch_replace", "key"),
                              view(value, value_size, "icecore_batch_replace", "value"), expected);
  });
}

int icecore_batch_clear(icecore_batch* batch) {
  return guarded([&] {
    require(batch, "icecore_batch_clear", "batch");
    batch->operations.clear();
  });
}

size_t icecore_batch_size(const icecore_batch* batch) { return batch == nullptr ? 0 : batch->operations.size(); }

int icecore_apply_if(icecore_store* store, const icecore_batch* batch, icecore_version* version) {
  if (version != nullptr) *version = 0;
  return guarded([&] {
    require(store, "icecore_apply_if", "store");
    require(batch, "icecore_apply_if", "batch");
    const auto applied = store->store.apply_if(batch->operations);
    if (version != nullptr) *version = applied.value_or(0);
  });
}

int icecore_apply(icecore_store* store, const icecore_batch* batch, icecore_version* version) {
  if (version != nullptr) *version = 0;
  return guarded([&] {
    require(store, "icecore_apply", "store");
    require(batch, "icecore_apply", "batch");
    const icecore_version written = store->store.apply(batch->operations);
    if (version != nullptr) *version = written;
  });
}

int icecore_sync(icecore_store* store) {
  return guarded([&] {
    require(store, "icecore_sync", "store");
    store->store.sync();
  });
}

int icecore_refresh(icecore_store* store, icecore_version* version) {
  return guarded([&] {
    require(store, "icecore_refresh", "store");
    const icecore_version newest = store->store.refresh();
    if (version != nullptr) *version = newest;
  });
}

int icecore_durability(const icecore_store* store, icecore_durability_info* info) {
  return guarded([&] {
    require(store, "icecore_durability", "store");
    require_result(info, "icecore_durability");
    write_structure(info, durability_of(store->store.durability()));
  });
}

int icecore_stats(const icecore_store* store, icecore_statistics* statistics) {
  return guarded([&] {
    require(store, "icecore_stats", "store");
    require_result(statistics, "icecore_stats");
    write_structure(statistics, statistics_of(store->store.stats()));
  });
}

uint64_t icecore_process_huge_page_bytes(void) {
  std::uint64_t bytes = 0;
  static_cast<void>(guarded([&] { bytes = icecore::process_huge_page_bytes(); }));
  return bytes;
}

const char* icecore_path(const icecore_store* store) { return store == nullptr ? nullptr : store->path.c_str(); }

int icecore_is_read_only(const icecore_store* store) {
  int read_only = 0;
  // Callers may only pass an open handle, so this cannot fail.
  static_cast<void>(guarded([&] { read_only = store != nullptr && store->store.read_only() ? 1 : 0; }));
  return read_only;
}

}  // extern "C"
