#include "opening.hpp"

namespace icecore::c {

icecore_options default_options() noexcept {
  icecore_options defaults{};
  defaults.struct_size = sizeof(defaults);
  defaults.huge_pages = 1;
  defaults.index = ICECORE_INDEX_BTREE;
  defaults.lookup_cache_bytes = options().lookup_cache_bytes;
  return defaults;
}

options options_of(const icecore_options* given, const char* function) {
  const icecore_options defaults = default_options();
  const icecore_options set = given == nullptr ? defaults : read_structure(given, defaults, function);
  options opening;
  opening.access = enumerator(set.access, access::read_write, access::read_only, function, "access");
  opening.creation = enumerator(set.creation, creation::open_or_create, creation::create_new, function, "creation");
  opening.durability =
      enumerator(set.durability, durability::best_available, durability::operation, function, "durability");
  opening.emulate_durability = set.emulate_durability != 0;
  opening.accept_copy = set.accept_copy != 0;
  opening.accept_damage = set.accept_damage != 0;
  opening.huge_pages = set.huge_pages != 0;
  opening.index = enumerator(set.index, index_kind::btree, index_kind::persistent, function, "index");
  opening.change_index = set.change_index != 0;
  opening.lookup_cache_bytes = set.lookup_cache_bytes;
  opening.recovery_threads = set.recovery_threads;
  if (set.placement_count > 0) require(set.placements, function, "placements");
  for (std::size_t i = 0; i < set.placement_count; ++i) {
    require(set.placements[i].path, function, "a placement's path");
    opening.placements.push_back({set.placements[i].path, set.placements[i].node});
  }
  opening.on_progress = progress_of(set.on_progress, set.progress_context);
  return opening;
}

}  // namespace icecore::c

extern "C" void icecore_options_init(icecore_options* options, size_t struct_size) {
  icecore::c::initialise(options, struct_size, icecore::c::default_options());
}
