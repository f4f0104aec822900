// Which versions a store keeps, and what it forgets.
#include "icecore/retention.hpp"
#include "icecore/forgetting.hpp"
#include "tags.hpp"
#include "upkeep.hpp"

namespace {

using namespace icecore::c;

std::vector<std::string> strings_of(const icecore_bytes* given, std::size_t count, const char* what) {
  if (count != 0) require(given, "icecore_forget", what);
  std::vector<std::string> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.emplace_back(view(given[i].data, given[i].size, "icecore_forget", what));
  }
  return all;
}

}  // namespace

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
    if (report != nullptr) {
      require_result(report, "icecore_forget");
      write_structure(report, icecore_forget_report{});
    }
    const icecore::forget_report done = store->store.forget({.keys = strings_of(keys, key_count, "keys"),
                                                             .prefixes = strings_of(prefixes, prefix_count, "prefixes"),
                                                             .note = view(note, note_size, "icecore_forget", "note")});
    if (report == nullptr) return;
    icecore_forget_report told{};
    told.up_to = done.up_to;
    told.keys = done.keys;
    copy_text(told.tag, done.tag);
    write_structure(report, told);
  });
}

}  // extern "C"
