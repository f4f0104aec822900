// Snapshots of a cluster, cursors over them, and histories.
#include <algorithm>
#include <memory>

#include "cluster_support.hpp"

namespace {

using namespace icecore::c;

[[noreturn]] void throw_nowhere(const char* function) {
  throw icecore::error(icecore::errc::invalid_argument,
                       std::string(function) + ": the cursor is not at an item; seek it to one first");
}

}  // namespace

struct icecore_cluster_cursor {
  icecore::cluster_cursor cursor;
  bool valid = false;
  int status = ICECORE_OK;

  /// Runs a seek or a step; afterwards the cursor is at an item or invalid.
  template <class Move>
  int move(Move&& move) noexcept {
    valid = false;
    status = guarded([&] {
      move(cursor);
      valid = cursor.valid();
    });
    return status;
  }
};

struct icecore_cluster_history {
  std::vector<icecore::versioned_value> records;
  std::size_t next = 0;
};

extern "C" {

int icecore_cluster_at_version(const icecore_cluster* cluster, icecore_version closed,
                               icecore_cluster_snapshot** snapshot) {
  if (snapshot != nullptr) *snapshot = nullptr;
  return guarded([&] {
    require(cluster, "icecore_cluster_at_version", "cluster");
    require(snapshot, "icecore_cluster_at_version", "snapshot");
    *snapshot = new icecore_cluster_snapshot{cluster->cluster.at(closed)};
  });
}

int icecore_cluster_at_tag(const icecore_cluster* cluster, const void* name, size_t name_size,
                           icecore_cluster_snapshot** snapshot) {
  if (snapshot != nullptr) *snapshot = nullptr;
  return guarded([&] {
    require(cluster, "icecore_cluster_at_tag", "cluster");
    require(snapshot, "icecore_cluster_at_tag", "snapshot");
    *snapshot =
        new icecore_cluster_snapshot{cluster->cluster.at(view(name, name_size, "icecore_cluster_at_tag", "name"))};
  });
}

void icecore_cluster_snapshot_close(icecore_cluster_snapshot* snapshot) { delete snapshot; }

icecore_version icecore_cluster_snapshot_version(const icecore_cluster_snapshot* snapshot) {
  return snapshot == nullptr ? 0 : snapshot->snapshot.version();
}

int icecore_cluster_snapshot_find(const icecore_cluster_snapshot* snapshot, const void* key, size_t key_size,
                                  icecore_bytes* value) {
  if (value != nullptr) *value = {nullptr, 0};
  return guarded([&] {
    require(snapshot, "icecore_cluster_snapshot_find", "snapshot");
    require(value, "icecore_cluster_snapshot_find", "value");
    *value = copy_of(snapshot->snapshot.find(view(key, key_size, "icecore_cluster_snapshot_find", "key")));
  });
}

int icecore_cluster_snapshot_find_many(const icecore_cluster_snapshot* snapshot, size_t count,
                                       const icecore_bytes* keys, icecore_bytes* values) {
  return guarded([&] {
    prepare_find_many(count, keys, values, "icecore_cluster_snapshot_find_many");
    require(snapshot, "icecore_cluster_snapshot_find_many", "snapshot");
    hand_out(snapshot->snapshot.find_many(views(count, keys, "icecore_cluster_snapshot_find_many", "keys")), values);
  });
}

int icecore_cluster_snapshot_size(const icecore_cluster_snapshot* snapshot, uint64_t* size) {
  if (size != nullptr) *size = 0;
  return guarded([&] {
    require(snapshot, "icecore_cluster_snapshot_size", "snapshot");
    require(size, "icecore_cluster_snapshot_size", "size");
    *size = snapshot->snapshot.size();
  });
}

int icecore_cluster_cursor_open(const icecore_cluster_snapshot* snapshot, const void* from, size_t from_size,
                                const void* to, size_t to_size, icecore_cluster_cursor** cursor) {
  if (cursor != nullptr) *cursor = nullptr;
  return guarded([&] {
    require(snapshot, "icecore_cluster_cursor_open", "snapshot");
    require(cursor, "icecore_cluster_cursor_open", "cursor");
    auto between = bounds(from, from_size, to, to_size, "icecore_cluster_cursor_open");
    *cursor = new icecore_cluster_cursor{snapshot->snapshot.cursor(std::move(between))};
  });
}

int icecore_cluster_cursor_open_prefix(const icecore_cluster_snapshot* snapshot, const void* prefix, size_t prefix_size,
                                       icecore_cluster_cursor** cursor) {
  if (cursor != nullptr) *cursor = nullptr;
  return guarded([&] {
    require(snapshot, "icecore_cluster_cursor_open_prefix", "snapshot");
    require(cursor, "icecore_cluster_cursor_open_prefix", "cursor");
    const auto start = view(prefix, prefix_size, "icecore_cluster_cursor_open_prefix", "prefix");
    *cursor = new icecore_cluster_cursor{snapshot->snapshot.cursor(icecore::key_bounds::of_prefix(start))};
  });
}

void icecore_cluster_cursor_close(icecore_cluster_cursor* cursor) { delete cursor; }

int icecore_cluster_cursor_seek_first(icecore_cluster_cursor* cursor) {
  if (cursor == nullptr) return guarded([] { throw_null("icecore_cluster_cursor_seek_first", "cursor"); });
  return cursor->move([](icecore::cluster_cursor& place) { place.seek_first(); });
}

int icecore_cluster_cursor_seek(icecore_cluster_cursor* cursor, const void* key, size_t key_size) {
  if (cursor == nullptr) return guarded([] { throw_null("icecore_cluster_cursor_seek", "cursor"); });
  return cursor->move(
      [&](icecore::cluster_cursor& place) { place.seek(view(key, key_size, "icecore_cluster_cursor_seek", "key")); });
}

int icecore_cluster_cursor_next(icecore_cluster_cursor* cursor) {
  if (cursor == nullptr) return guarded([] { throw_null("icecore_cluster_cursor_next", "cursor"); });
  if (!cursor->valid) return guarded([] { throw_nowhere("icecore_cluster_cursor_next"); });
  return cursor->move([](icecore::cluster_cursor& place) { place.next(); });
}

int icecore_cluster_cursor_valid(const icecore_cluster_cursor* cursor) {
  return cursor != nullptr && cursor->valid ? 1 : 0;
}

int icecore_cluster_cursor_status(const icecore_cluster_cursor* cursor) {
  return cursor == nullptr ? static_cast<int>(ICECORE_INVALID_ARGUMENT) : cursor->status;
}

icecore_bytes icecore_cluster_cursor_key(const icecore_cluster_cursor* cursor) {
  if (cursor == nullptr || !cursor->valid) return {nullptr, 0};
  return bytes(cursor->cursor->key);
}

icecore_bytes icecore_cluster_cursor_value(const icecore_cluster_cursor* cursor) {
  if (cursor == nullptr || !cursor->valid) return {nullptr, 0};
  return bytes(cursor->cursor->value);
}

int icecore_cluster_history_open(const icecore_cluster* cluster, const void* key, size_t key_size, int order,
                                 icecore_cluster_history** history) {
  if (history != nullptr) *history = nullptr;
  return guarded([&] {
    require(cluster, "icecore_cluster_history_open", "cluster");
    require(history, "icecore_cluster_history_open", "history");
    if (order != ICECORE_NEWEST_FIRST && order != ICECORE_OLDEST_FIRST) {
      throw icecore::error(icecore::errc::invalid_argument,
                           "icecore_cluster_history_open: order is " + std::to_string(order) +
                               "; it must be ICECORE_NEWEST_FIRST or ICECORE_OLDEST_FIRST");
    }
    auto opened = std::make_unique<icecore_cluster_history>();
    opened->records = cluster->cluster.history(view(key, key_size, "icecore_cluster_history_open", "key"));
    if (order == ICECORE_OLDEST_FIRST) std::reverse(opened->records.begin(), opened->records.end());
    *history = opened.release();
  });
}

size_t icecore_cluster_history_count(const icecore_cluster_history* history) {
  return history == nullptr ? 0 : history->records.size();
}

int icecore_cluster_history_next(icecore_cluster_history* history, icecore_change* change) {
  if (change != nullptr) *change = {0, {nullptr, 0}};
  return guarded([&] {
    require(history, "icecore_cluster_history_next", "history");
    require(change, "icecore_cluster_history_next", "change");
    if (history->next >= history->records.size()) return;
    const icecore::versioned_value& record = history->records[history->next++];
    change->version = record.version;
    if (record.value) change->value = bytes(std::string_view(*record.value));
  });
}

void icecore_cluster_history_close(icecore_cluster_history* history) { delete history; }

}  // extern "C"
