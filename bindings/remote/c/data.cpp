// The C interface of icecore::remote: writing and reading.
#include <algorithm>
#include <vector>

#include "remote_c.hpp"

namespace remote = icecore::remote;
using namespace icecore::remote::c;

namespace icecore::remote::c {

void hand_out(std::optional<value> found, icecore_remote_value& to) {
  to = {};
  if (!found) return;
  const version written = found->version();
  const auto* kept = new std::string(std::move(*found).take());
  to = {.data = kept->data(), .size = kept->size(), .version = written, .owner = const_cast<std::string*>(kept)};
}

}  // namespace icecore::remote::c

namespace {

void fill(const remote::update_result& from, icecore_remote_update_result* to) {
  if (to != nullptr) *to = {static_cast<int>(from.is), from.version, from.size, from.number};
}

icecore_remote_row row_of(const icecore::item& from) {
  return {icecore::c::bytes(from.key), icecore::c::bytes(from.value), {nullptr, 0}, 0};
}
icecore_remote_row row_of(const icecore::change& from) {
  return {{nullptr, 0}, icecore::c::bytes(from.value), {nullptr, 0}, from.version};
}
icecore_remote_row row_of(const icecore::difference& from) {
  return {icecore::c::bytes(from.key), icecore::c::bytes(from.after), icecore::c::bytes(from.before), 0};
}
icecore_remote_row row_of(const remote::key_change& from) {
  return {icecore::c::bytes(from.key), icecore::c::bytes(from.value), {nullptr, 0}, from.version};
}

std::optional<std::string_view> view_of(const std::optional<std::string>& text) {
  return text ? std::optional<std::string_view>(*text) : std::nullopt;
}

// As many of them as the caller has room for, and how many there are.
void give_out(const std::vector<icecore::version>& from, icecore_version* versions, size_t capacity, size_t* count,
              const char* function) {
  require(count, function, "count");
  if (capacity > 0) require(versions, function, "versions");
  std::copy_n(from.begin(), std::min(capacity, from.size()), versions);
  *count = from.size();
}

template <class Range>
void give_out(Range&& range, icecore_remote_rows** rows) {
  using walk = icecore_remote_rows::walk<std::remove_cvref_t<Range>>;
  *rows = new icecore_remote_rows{walk(std::forward<Range>(range))};
}

}  // namespace

int icecore_remote_insert(icecore_remote_store* store, const void* key, size_t key_size, const void* value,
                          size_t value_size, icecore_version* version) {
  return icecore_remote_insert_with_lease(store, key, key_size, value, value_size, 0, version);
}

int icecore_remote_insert_with_lease(icecore_remote_store* store, const void* key, size_t key_size, const void* value,
                                     size_t value_size, uint64_t lease, icecore_version* version) {
  put(version, {});
  return guarded([&] {
    require(store, __func__, "store");
    put(version,
        store->store.insert(view(key, key_size, __func__, "key"), view(value, value_size, __func__, "value"), lease));
  });
}

int icecore_remote_insert_new(icecore_remote_store* store, const void* key, size_t key_size, const void* value,
                              size_t value_size, icecore_version* version) {
  put(version, {});
  return guarded([&] {
    require(store, __func__, "store");
    put(version,
        store->store.insert_new(view(key, key_size, __func__, "key"), view(value, value_size, __func__, "value")));
  });
}

int icecore_remote_remove(icecore_remote_store* store, const void* key, size_t key_size, icecore_version* version) {
  put(version, {});
  return guarded([&] {
    require(store, __func__, "store");
    put(version, store->store.remove(view(key, key_size, __func__, "key")));
  });
}

int icecore_remote_replace(icecore_remote_store* store, const void* key, size_t key_size, const void* value,
                           size_t value_size, icecore_version expected, icecore_version* version) {
  put(version, {});
  return guarded([&] {
    require(store, __func__, "store");
    put(version, store->store.replace(view(key, key_size, __func__, "key"), view(value, value_size, __func__, "value"),
                                      expected));
  });
}

int icecore_remote_apply(icecore_remote_store* store, const icecore_batch* batch, icecore_version* version) {
  put(version, {});
  return guarded([&] {
    require(store, __func__, "store");
    require(batch, __func__, "batch");
    put(version, store->store.apply(batch->operations));
  });
}

int icecore_remote_apply_if(icecore_remote_store* store, const icecore_batch* batch, icecore_version* version) {
  put(version, {});
  return guarded([&] {
    require(store, __func__, "store");
    require(batch, __func__, "batch");
    put(version, store->store.apply_if(batch->operations));
  });
}

int icecore_remote_update(icecore_remote_store* store, const void* key, size_t key_size, const void* part,
                          size_t part_size, int rule, uint64_t offset, int or_put,
                          icecore_remote_update_result* result) {
  if (result != nullptr) *result = {};
  return guarded([&] {
    require(store, __func__, "store");
    if (rule < ICECORE_REMOTE_IN_PLACE || rule > ICECORE_REMOTE_APPEND) {
      throw icecore::error(icecore::errc::invalid_argument, "icecore_remote_update: no such rule");
    }
    const remote::part_rule how{
        .rule = static_cast<remote::update_rule>(rule), .offset = offset, .or_put = or_put != 0};
    fill(store->store.update(view(key, key_size, __func__, "key"), view(part, part_size, __func__, "part"), how),
         result);
  });
}

int icecore_remote_increment(icecore_remote_store* store, const void* key, size_t key_size, int64_t by,
                             icecore_remote_update_result* result) {
  if (result != nullptr) *result = {};
  return guarded([&] {
    require(store, __func__, "store");
    fill(store->store.increment(view(key, key_size, __func__, "key"), by), result);
  });
}

int icecore_remote_insert_many(icecore_remote_store* store, size_t count, const icecore_bytes* keys,
                               const icecore_bytes* values, int keep, uint64_t* written) {
  put(written, {});
  return guarded([&] {
    require(store, __func__, "store");
    if (count > 0) require(keys, __func__, "keys");
    if (count > 0) require(values, __func__, "values");
    std::vector<icecore::item> items(count);
    for (std::size_t i = 0; i < count; ++i) {
      items[i] = {view(keys[i].data, keys[i].size, __func__, "a key"),
                  view(values[i].data, values[i].size, __func__, "a value")};
    }
    put(written, store->store.insert_many(items, keep != 0));
  });
}

int icecore_remote_sync(icecore_remote_store* store) {
  return guarded([&] {
    require(store, __func__, "store");
    store->store.sync();
  });
}

void icecore_remote_value_release(icecore_remote_value* value) {
  if (value == nullptr) return;
  delete static_cast<std::string*>(value->owner);
  *value = {};
}

int icecore_remote_find(const icecore_remote_store* store, const void* key, size_t key_size,
                        icecore_remote_value* value) {
  if (value != nullptr) *value = {};
  return guarded([&] {
    require(store, __func__, "store");
    require(value, __func__, "value");
    hand_out(store->store.find(view(key, key_size, __func__, "key")), *value);
  });
}

int icecore_remote_find_at(const icecore_remote_store* store, const void* key, size_t key_size, icecore_version at,
                           icecore_remote_value* value) {
  if (value != nullptr) *value = {};
  return guarded([&] {
    require(store, __func__, "store");
    require(value, __func__, "value");
    hand_out(store->store.find(view(key, key_size, __func__, "key"), at), *value);
  });
}

int icecore_remote_find_tag_value(const icecore_remote_store* store, const void* key, size_t key_size, const void* tag,
                                  size_t tag_size, icecore_remote_value* value) {
  if (value != nullptr) *value = {};
  return guarded([&] {
    require(store, __func__, "store");
    require(value, __func__, "value");
    hand_out(store->store.find(view(key, key_size, __func__, "key"), view(tag, tag_size, __func__, "tag")), *value);
  });
}

int icecore_remote_at_version(const icecore_remote_store* store, icecore_version closed,
                              icecore_remote_snapshot** snapshot) {
  if (snapshot != nullptr) *snapshot = nullptr;
  return guarded([&] {
    require(store, __func__, "store");
    require(snapshot, __func__, "snapshot");
    *snapshot = new icecore_remote_snapshot{store->store.at(closed)};
  });
}

int icecore_remote_at_tag(const icecore_remote_store* store, const void* tag, size_t tag_size,
                          icecore_remote_snapshot** snapshot) {
  if (snapshot != nullptr) *snapshot = nullptr;
  return guarded([&] {
    require(store, __func__, "store");
    require(snapshot, __func__, "snapshot");
    *snapshot = new icecore_remote_snapshot{store->store.at(view(tag, tag_size, __func__, "tag"))};
  });
}

int icecore_remote_latest(const icecore_remote_store* store, icecore_remote_snapshot** snapshot) {
  if (snapshot != nullptr) *snapshot = nullptr;
  return guarded([&] {
    require(store, __func__, "store");
    require(snapshot, __func__, "snapshot");
    *snapshot = new icecore_remote_snapshot{store->store.latest()};
  });
}

void icecore_remote_snapshot_close(icecore_remote_snapshot* snapshot) { delete snapshot; }

int icecore_remote_snapshot_version(const icecore_remote_snapshot* snapshot, icecore_version* version) {
  put(version, {});
  return guarded([&] {
    require(snapshot, __func__, "snapshot");
    put(version, snapshot->snapshot.version());
  });
}

int icecore_remote_snapshot_versions(const icecore_remote_snapshot* snapshot, icecore_version* versions,
                                     size_t capacity, size_t* count) {
  if (count != nullptr) *count = 0;
  return guarded([&] {
    require(snapshot, __func__, "snapshot");
    give_out(snapshot->snapshot.versions(), versions, capacity, count, __func__);
  });
}

int icecore_remote_snapshot_find(const icecore_remote_snapshot* snapshot, const void* key, size_t key_size,
                                 icecore_remote_value* value) {
  if (value != nullptr) *value = {};
  return guarded([&] {
    require(snapshot, __func__, "snapshot");
    require(value, __func__, "value");
    hand_out(snapshot->snapshot.find(view(key, key_size, __func__, "key")), *value);
  });
}

int icecore_remote_snapshot_count(const icecore_remote_snapshot* snapshot, const void* from, size_t from_size,
                                  const void* to, size_t to_size, uint64_t* count) {
  put(count, {});
  return guarded([&] {
    require(snapshot, __func__, "snapshot");
    put(count, snapshot->snapshot.count(icecore::c::bounds(from, from_size, to, to_size, __func__)));
  });
}

int icecore_remote_range(const icecore_remote_snapshot* snapshot, const void* from, size_t from_size, const void* to,
                         size_t to_size, int reverse, icecore_remote_rows** rows) {
  if (rows != nullptr) *rows = nullptr;
  return guarded([&] {
    require(snapshot, __func__, "snapshot");
    require(rows, __func__, "rows");
    const auto bounds = icecore::c::bounds(from, from_size, to, to_size, __func__);
    give_out(reverse != 0 ? snapshot->snapshot.reversed(bounds) : snapshot->snapshot.range(bounds), rows);
  });
}

int icecore_remote_history(const icecore_remote_store* store, const void* key, size_t key_size,
                           icecore_remote_rows** rows) {
  if (rows != nullptr) *rows = nullptr;
  return guarded([&] {
    require(store, __func__, "store");
    require(rows, __func__, "rows");
    give_out(store->store.history(view(key, key_size, __func__, "key")), rows);
  });
}

int icecore_remote_diff(const icecore_remote_store* store, icecore_version before, icecore_version after,
                        icecore_remote_rows** rows) {
  if (rows != nullptr) *rows = nullptr;
  return guarded([&] {
    require(store, __func__, "store");
    require(rows, __func__, "rows");
    give_out(store->store.diff(before, after), rows);
  });
}

int icecore_remote_changes(const icecore_remote_store* store, icecore_version after, icecore_version up_to,
                           icecore_remote_rows** rows) {
  if (rows != nullptr) *rows = nullptr;
  return guarded([&] {
    require(store, __func__, "store");
    require(rows, __func__, "rows");
    give_out(store->store.changes(after, up_to), rows);
  });
}

int icecore_remote_diff_between(const icecore_remote_store* store, const icecore_remote_snapshot* before,
                                const icecore_remote_snapshot* after, icecore_remote_rows** rows) {
  if (rows != nullptr) *rows = nullptr;
  return guarded([&] {
    require(store, __func__, "store");
    require(before, __func__, "before");
    require(after, __func__, "after");
    require(rows, __func__, "rows");
    give_out(store->store.diff(before->snapshot, after->snapshot), rows);
  });
}

int icecore_remote_changes_between(const icecore_remote_store* store, const icecore_remote_snapshot* after,
                                   const icecore_remote_snapshot* up_to, icecore_remote_rows** rows) {
  if (rows != nullptr) *rows = nullptr;
  return guarded([&] {
    require(store, __func__, "store");
    require(after, __func__, "after");
    require(up_to, __func__, "up_to");
    require(rows, __func__, "rows");
    give_out(store->store.changes(after->snapshot, up_to->snapshot), rows);
  });
}

int icecore_remote_rows_next(icecore_remote_rows* rows, icecore_remote_row* row, int* there) {
  if (row != nullptr) *row = {};
  if (there != nullptr) *there = 0;
  return guarded([&] {
    require(rows, __func__, "rows");
    require(row, __func__, "row");
    require(there, __func__, "there");
    const auto step = [&](auto& walk) {
      if (!walk.at) {
        walk.at.emplace(walk.range.begin());
      } else if (*walk.at != walk.range.end()) {
        ++*walk.at;
      }
      if (*walk.at == walk.range.end()) return;
      *row = row_of(**walk.at);
      *there = 1;
    };
    std::visit(step, rows->rows);
  });
}

void icecore_remote_rows_close(icecore_remote_rows* rows) { delete rows; }

int icecore_remote_watch_open(const icecore_remote_store* store, icecore_version after, icecore_remote_watch** watch) {
  if (watch != nullptr) *watch = nullptr;
  return guarded([&] {
    require(store, __func__, "store");
    require(watch, __func__, "watch");
    remote::watch_request asked;
    if (after != UINT64_MAX) asked.after = after;
    *watch = new icecore_remote_watch{store->store.watch(asked)};
  });
}

int icecore_remote_watch_open_each(const icecore_remote_store* store, const icecore_version* after, size_t count,
                                   icecore_remote_watch** watch) {
  if (watch != nullptr) *watch = nullptr;
  return guarded([&] {
    require(store, __func__, "store");
    require(after, __func__, "after");
    require(watch, __func__, "watch");
    if (count == 0) {
      throw icecore::error(icecore::errc::invalid_argument,
                           "icecore_remote_watch_open_each: needs a version of each server, and was given none");
    }
    *watch = new icecore_remote_watch{
        store->store.watch({.after_each = std::vector<icecore::version>(after, after + count)})};
  });
}

int icecore_remote_watch_next(icecore_remote_watch* watch, uint32_t wait_ms, icecore_remote_row* row, int* there,
                              icecore_version* told) {
  if (row != nullptr) *row = {};
  if (there != nullptr) *there = 0;
  put(told, {});
  return guarded([&] {
    require(watch, __func__, "watch");
    require(row, __func__, "row");
    require(there, __func__, "there");
    if (watch->given >= watch->batch.changes.size()) {
      watch->batch = watch->watch.next(std::chrono::milliseconds(wait_ms));
      watch->given = 0;
    }
    if (watch->given < watch->batch.changes.size()) {
      const remote::watched_change& one = watch->batch.changes[watch->given++];
      *row = {icecore::c::bytes(std::string_view(one.key)), icecore::c::bytes(view_of(one.value)),
              icecore::c::bytes(view_of(one.before)), one.version};
      *there = 1;
    }
    // Until the last change of a batch is given, its versions are not told completely.
    if (watch->given >= watch->batch.changes.size()) put(told, watch->batch.told);
  });
}

int icecore_remote_watch_told(const icecore_remote_watch* watch, icecore_version* versions, size_t capacity,
                              size_t* count) {
  if (count != nullptr) *count = 0;
  return guarded([&] {
    require(watch, __func__, "watch");
    const bool in_part = watch->given < watch->batch.changes.size();
    give_out(in_part ? std::vector<icecore::version>() : watch->batch.told_each, versions, capacity, count, __func__);
  });
}

void icecore_remote_watch_close(icecore_remote_watch* watch) { delete watch; }
