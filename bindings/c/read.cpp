// Finds, snapshots and extraction.
#include <array>
#include <atomic>
#include <memory>
#include <utility>

#include "support.hpp"

namespace {

using namespace icecore::c;

/// Finds keys in groups, so that the views fit on the stack: `find(first, keys, answers)` finds one group.
template <class Find>
void find_in_groups(std::size_t count, const icecore_bytes* keys, icecore_bytes* values, const char* function,
                    Find&& find) {
  constexpr std::size_t group_size_max = 256;
  std::array<std::string_view, group_size_max> views;
  std::array<std::optional<std::string_view>, group_size_max> answers;
  for (std::size_t first = 0; first < count; first += group_size_max) {
    const std::size_t size = std::min(group_size_max, count - first);
    for (std::size_t i = 0; i < size; ++i)
      views[i] = view(keys[first + i].data, keys[first + i].size, function, "a key");
    find(first, std::span<const std::string_view>(views.data(), size), std::span(answers.data(), size));
    for (std::size_t i = 0; i < size; ++i) values[first + i] = bytes(answers[i]);
  }
}

/// Sets all answers to NULL (C2) and checks the arrays.
void prepare_find_many(std::size_t count, const void* keys, icecore_bytes* values, const char* function) {
  if (count == 0) return;
  require(values, function, "values");
  std::fill_n(values, count, icecore_bytes{nullptr, 0});
  require(keys, function, "keys");
}

void forget_answers(std::size_t count, icecore_bytes* values) noexcept {
  if (values != nullptr) std::fill_n(values, count, icecore_bytes{nullptr, 0});
}

icecore::fixed_columns given_columns(const icecore_fixed_columns* columns, const char* function) {
  const icecore_fixed_columns set = read_structure(columns, icecore_fixed_columns{}, function);
  return {set.keys, set.key_size, set.values, set.value_size, set.capacity};
}

/// Converts the columns to their C structure.
owned_columns* handed_out(icecore::columns extracted) {
  const auto kept = std::make_shared<const icecore::columns>(std::move(extracted));
  return new owned_columns{{kept->keys.offsets.size() - 1, kept->keys.offsets.data(), kept->keys.bytes.data(),
                            kept->values.offsets.data(), kept->values.bytes.data()},
                           kept};
}

void open_snapshot(icecore_snapshot** snapshot, icecore::snapshot at) {
  *snapshot = new icecore_snapshot{std::move(at)};
}

}  // namespace

extern "C" {

void icecore_pin_release(icecore_pin* pin) { taken_back(pin).reset(); }

void icecore_value_release(icecore_value* value) {
  if (value == nullptr) return;
  taken_back(value->pin).reset();
  *value = {nullptr, 0, nullptr};
}

int icecore_find(const icecore_store* store, const void* key, size_t key_size, icecore_value* value) {
  if (value != nullptr) *value = {nullptr, 0, nullptr};
  return guarded([&] {
    require(store, "icecore_find", "store");
    require(value, "icecore_find", "value");
    *value = handed_out(store->store.find(view(key, key_size, "icecore_find", "key")));
  });
}

int icecore_find_at(const icecore_store* store, const void* key, size_t key_size, icecore_version at,
                    icecore_value* value) {
  if (value != nullptr) *value = {nullptr, 0, nullptr};
  return guarded([&] {
    require(store, "icecore_find_at", "store");
    require(value, "icecore_find_at", "value");
    *value = handed_out(store->store.find(view(key, key_size, "icecore_find_at", "key"), at));
  });
}

int icecore_contains(const icecore_store* store, const void* key, size_t key_size, int* present) {
  if (present != nullptr) *present = 0;
  return guarded([&] {
    require(store, "icecore_contains", "store");
    require(present, "icecore_contains", "present");
    *present = store->store.contains(view(key, key_size, "icecore_contains", "key")) ? 1 : 0;
  });
}

int icecore_contains_at(const icecore_store* store, const void* key, size_t key_size, icecore_version at,
                        int* present) {
  if (present != nullptr) *present = 0;
  return guarded([&] {
    require(store, "icecore_contains_at", "store");
    require(present, "icecore_contains_at", "present");
    *present = store->store.contains(view(key, key_size, "icecore_contains_at", "key"), at) ? 1 : 0;
  });
}

int icecore_find_many(const icecore_store* store, size_t count, const icecore_bytes* keys, icecore_version at,
                      icecore_bytes* values, icecore_pin** pin) {
  if (pin != nullptr) *pin = nullptr;
  const int code = guarded([&] {
    prepare_find_many(count, keys, values, "icecore_find_many");
    require(store, "icecore_find_many", "store");
    require(pin, "icecore_find_many", "pin");
    const icecore::snapshot then = store->store.at(at);
    find_in_groups(count, keys, values, "icecore_find_many",
                   [&](std::size_t, auto group, auto answers) { then.find_many(group, answers); });
    *pin = handed_out(then.holds());
  });
  if (code != ICECORE_OK) forget_answers(count, values);
  return code;
}

int icecore_find_many_at(const icecore_store* store, size_t count, const icecore_bytes* keys, const icecore_version* at,
                         icecore_bytes* values, icecore_pin** pin) {
  if (pin != nullptr) *pin = nullptr;
  const int code = guarded([&] {
    prepare_find_many(count, keys, values, "icecore_find_many_at");
    require(store, "icecore_find_many_at", "store");
    require(pin, "icecore_find_many_at", "pin");
    if (count != 0) require(at, "icecore_find_many_at", "at");
    icecore::pin holds = store->store.hold();
    find_in_groups(count, keys, values, "icecore_find_many_at", [&](std::size_t first, auto group, auto answers) {
      static_cast<void>(store->store.find_many(group, std::span(at + first, group.size()), answers));
    });
    *pin = handed_out(std::move(holds));
  });
  if (code != ICECORE_OK) forget_answers(count, values);
  return code;
}

int icecore_at_version(const icecore_store* store, icecore_version closed, icecore_snapshot** snapshot) {
  if (snapshot != nullptr) *snapshot = nullptr;
  return guarded([&] {
    require(store, "icecore_at_version", "store");
    require(snapshot, "icecore_at_version", "snapshot");
    open_snapshot(snapshot, store->store.at(closed));
  });
}

int icecore_at_tag(const icecore_store* store, const void* name, size_t name_size, icecore_snapshot** snapshot) {
  if (snapshot != nullptr) *snapshot = nullptr;
  return guarded([&] {
    require(store, "icecore_at_tag", "store");
    require(snapshot, "icecore_at_tag", "snapshot");
    open_snapshot(snapshot, store->store.at(view(name, name_size, "icecore_at_tag", "name")));
  });
}

int icecore_at_time(const icecore_store* store, int64_t time_ns, icecore_snapshot** snapshot) {
  if (snapshot != nullptr) *snapshot = nullptr;
  return guarded([&] {
    require(store, "icecore_at_time", "store");
    require(snapshot, "icecore_at_time", "snapshot");
    using clock = std::chrono::system_clock;
    const auto since_epoch = std::chrono::duration_cast<clock::duration>(std::chrono::nanoseconds(time_ns));
    open_snapshot(snapshot, store->store.at(clock::time_point(since_epoch)));
  });
}

int icecore_latest(const icecore_store* store, icecore_snapshot** snapshot) {
  if (snapshot != nullptr) *snapshot = nullptr;
  return guarded([&] {
    require(store, "icecore_latest", "store");
    require(snapshot, "icecore_latest", "snapshot");
    open_snapshot(snapshot, store->store.latest());
  });
}

void icecore_snapshot_close(icecore_snapshot* snapshot) { delete snapshot; }

icecore_version icecore_snapshot_version(const icecore_snapshot* snapshot) {
  return snapshot == nullptr ? 0 : snapshot->snapshot.version();
}

int icecore_snapshot_find(const icecore_snapshot* snapshot, const void* key, size_t key_size, icecore_bytes* value) {
  if (value != nullptr) *value = {nullptr, 0};
  return guarded([&] {
    require(snapshot, "icecore_snapshot_find", "snapshot");
    require(value, "icecore_snapshot_find", "value");
    *value = bytes(snapshot->snapshot.find(view(key, key_size, "icecore_snapshot_find", "key")));
  });
}

int icecore_snapshot_find_many(const icecore_snapshot* snapshot, size_t count, const icecore_bytes* keys,
                               icecore_bytes* values) {
  const int code = guarded([&] {
    prepare_find_many(count, keys, values, "icecore_snapshot_find_many");
    require(snapshot, "icecore_snapshot_find_many", "snapshot");
    find_in_groups(count, keys, values, "icecore_snapshot_find_many",
                   [&](std::size_t, auto group, auto answers) { snapshot->snapshot.find_many(group, answers); });
  });
  if (code != ICECORE_OK) forget_answers(count, values);
  return code;
}

int icecore_snapshot_size(const icecore_snapshot* snapshot, unsigned threads, size_t* size) {
  if (size != nullptr) *size = 0;
  return guarded([&] {
    require(snapshot, "icecore_snapshot_size", "snapshot");
    require(size, "icecore_snapshot_size", "size");
    *size = snapshot->snapshot.size(threads);
  });
}

int icecore_snapshot_size_bound(const icecore_snapshot* snapshot, size_t* bound) {
  if (bound != nullptr) *bound = 0;
  return guarded([&] {
    require(snapshot, "icecore_snapshot_size_bound", "snapshot");
    require(bound, "icecore_snapshot_size_bound", "bound");
    *bound = snapshot->snapshot.size_bound();
  });
}

void icecore_fixed_columns_init(icecore_fixed_columns* columns, size_t struct_size) {
  if (columns == nullptr || struct_size < sizeof(size_t)) return;
  std::memset(columns, 0, struct_size);
  columns->struct_size = struct_size;
}

int icecore_snapshot_extract(const icecore_snapshot* snapshot, const icecore_fixed_columns* columns, unsigned threads,
                             size_t* count) {
  if (count != nullptr) *count = 0;
  return guarded([&] {
    require(snapshot, "icecore_snapshot_extract", "snapshot");
    require(count, "icecore_snapshot_extract", "count");
    *count = snapshot->snapshot.extract(given_columns(columns, "icecore_snapshot_extract"), threads);
  });
}

int icecore_snapshot_extract_page(const icecore_snapshot* snapshot, const void* from, size_t from_size,
                                  const icecore_fixed_columns* columns, size_t* count) {
  constexpr const char* function = "icecore_snapshot_extract_page";
  if (count != nullptr) *count = 0;
  return guarded([&] {
    require(snapshot, function, "snapshot");
    require(count, function, "count");
    const icecore::fixed_columns out = given_columns(columns, function);
    *count = snapshot->snapshot.extract_page(view(from, from_size, function, "from"), out);
  });
}

int icecore_snapshot_columns(const icecore_snapshot* snapshot, unsigned threads, const void* from, size_t from_size,
                             const void* to, size_t to_size, icecore_columns** columns) {
  if (columns != nullptr) *columns = nullptr;
  return guarded([&] {
    require(snapshot, "icecore_snapshot_columns", "snapshot");
    require(columns, "icecore_snapshot_columns", "columns");
    const auto between = bounds(from, from_size, to, to_size, "icecore_snapshot_columns");
    *columns = handed_out(snapshot->snapshot.extract(threads, between));
  });
}

void icecore_columns_free(icecore_columns* columns) { delete static_cast<owned_columns*>(columns); }

int icecore_snapshot_for_each(const icecore_snapshot* snapshot, icecore_visit_function visit, void* context,
                              unsigned threads) {
  return guarded([&] {
    require(snapshot, "icecore_snapshot_for_each", "snapshot");
    if (visit == nullptr) throw_null("icecore_snapshot_for_each", "visit");
    snapshot->snapshot.for_each(
        [visit, context](const icecore::item& item) {
          if (visit(context, bytes(item.key), bytes(item.value)) != 0) throw stopped_by_callback{};
        },
        threads);
  });
}

}  // extern "C"
