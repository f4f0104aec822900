// Packing a store.
#include "icecore/compaction.hpp"

#include "opening.hpp"
#include "upkeep.hpp"

using namespace icecore::c;

extern "C" {

void icecore_compaction_options_init(icecore_compaction_options* how, size_t struct_size) {
  initialise(how, struct_size, compaction_defaults());
}

int icecore_compact(const char* path, const icecore_options* options, const icecore_compaction_options* how,
                    icecore_compaction_report* report) {
  constexpr auto function = "icecore_compact";
  return pack(path, "path", how, report, function, [&](const icecore::compaction_options& wanted) {
    return icecore::compact(path, options_of(options, function), wanted);
  });
}

int icecore_compact_open(icecore_store* store, const icecore_compaction_options* how,
                         icecore_compaction_report* report) {
  return pack(store, "store", how, report, "icecore_compact_open",
              [&](const icecore::compaction_options& wanted) { return store->store.compact(wanted); });
}

int icecore_pause_compaction(icecore_store* store) {
  return guarded([&] {
    require(store, "icecore_pause_compaction", "store");
    store->store.pause_compaction();
  });
}

int icecore_resume_compaction(icecore_store* store) {
  return guarded([&] {
    require(store, "icecore_resume_compaction", "store");
    store->store.resume_compaction();
  });
}

}  // extern "C"
