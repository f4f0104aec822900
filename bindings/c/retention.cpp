// Which versions a store keeps, and what it forgets.
#include "icecore/retention.hpp"

#include "upkeep.hpp"

using namespace icecore::c;

extern "C" {

int icecore_set_retention(icecore_store* store, const icecore_retention* retention) {
  return guarded([&] {
    require(store, "icecore_set_retention", "store");
    store->store.set_retention(retention_of(retention, "icecore_set_retention"));
  });
}

int icecore_get_retention(const icecore_store* store, icecore_retention* retention) {
  return guarded([&] {
    require(store, "icecore_get_retention", "store");
    require_result(retention, "icecore_get_retention");
    write_structure(retention, retention_in_c(store->store.retention()));
  });
}

int icecore_is_expired(const icecore_store* store, icecore_version version, int* expired) {
  return guarded([&] {
    require(store, "icecore_is_expired", "store");
    require(expired, "icecore_is_expired", "expired");
    *expired = store->store.is_expired(version) ? 1 : 0;
  });
}

int icecore_hold_version(icecore_store* store, const void* name, size_t name_size, icecore_version at,
                         icecore_version* held) {
  if (held != nullptr) *held = 0;
  return guarded([&] {
    constexpr auto function = "icecore_hold_version";
    require(store, function, "store");
    const std::optional<icecore_version> version = at == ICECORE_VERSION_PRESENT ? std::nullopt : std::optional(at);
    const icecore_version found = store->store.hold_version(view(name, name_size, function, "name"), version);
    if (held != nullptr) *held = found;
  });
}

int icecore_release_version(icecore_store* store, const void* name, size_t name_size) {
  return guarded([&] {
    require(store, "icecore_release_version", "store");
    store->store.release_version(view(name, name_size, "icecore_release_version", "name"));
  });
}

int icecore_held_versions(const icecore_store* store, icecore_holds** holds) {
  if (holds != nullptr) *holds = nullptr;
  return guarded([&] {
    require(store, "icecore_held_versions", "store");
    require(holds, "icecore_held_versions", "holds");
    *holds = new icecore_holds(store->store.held_versions());
  });
}

size_t icecore_holds_count(const icecore_holds* holds) { return holds == nullptr ? 0 : holds->all.size(); }

const icecore_hold* icecore_holds_next(icecore_holds* holds) {
  if (holds == nullptr || holds->next >= holds->all.size()) return nullptr;
  return &holds->all[holds->next++];
}

void icecore_holds_close(icecore_holds* holds) { delete holds; }

int icecore_forget(icecore_store* store, const icecore_bytes* keys, size_t key_count, const icecore_bytes* prefixes,
                   size_t prefix_count, const void* note, size_t note_size, icecore_forget_report* report) {
  return guarded([&] {
    require(store, "icecore_forget", "store");
    forget({keys, key_count}, {prefixes, prefix_count}, view(note, note_size, "icecore_forget", "note"), report,
           "icecore_forget", [&](const icecore::forget_request& what) { return store->store.forget(what); });
  });
}

}  // extern "C"
