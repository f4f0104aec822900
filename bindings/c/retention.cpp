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

int icecore_forget(icecore_store* store, const icecore_bytes* keys, size_t key_count, const icecore_bytes* prefixes,
                   size_t prefix_count, const void* note, size_t note_size, icecore_forget_report* report) {
  return guarded([&] {
    require(store, "icecore_forget", "store");
    forget({keys, key_count}, {prefixes, prefix_count}, view(note, note_size, "icecore_forget", "note"), report,
           "icecore_forget", [&](const icecore::forget_request& what) { return store->store.forget(what); });
  });
}

}  // extern "C"
