#include "opening.hpp"

namespace icecore::c {

icecore_options default_options() noexcept {
  icecore_options defaults{};
  defaults.struct_size = sizeof(defaults);
  defaults.huge_pages = 1;
  defaults.index = ICECORE_INDEX_BTREE;
  defaults.lookup_cache_bytes = options().lookup_cache_bytes;
  defaults.grow_in_background = 1;
  defaults.beside_writer = 1;
  defaults.publish_settled = 1;
  defaults.compaction_threads = options().compaction_limits.threads;
  defaults.compaction_young_bytes = options().compaction_limits.young_bytes;
  return defaults;
}

options options_of(const icecore_options* given, const char* function) {
  const icecore_options defaults = default_options();
  const icecore_options set = given == nullptr ? defaults : read_structure(given, defaults, function);
  options opening;
  opening.access = enumerator(set.access, access::read_write, access::attached, function, "access");
  opening.creation = enumerator(set.creation, creation::open_or_create, creation::create_new, function, "creation");
  opening.durability =
      enumerator(set.durability, durability::best_available, durability::operation, function, "durability");
  opening.emulate_durability = set.emulate_durability != 0;
  opening.deferred_durability = set.deferred_durability != 0;
  opening.accept_copy = set.accept_copy != 0;
  opening.crash = enumerator(set.crash, crash_kind::unknown, crash_kind::machine, function, "crash");
  opening.accept_damage = set.accept_damage != 0;
  opening.huge_pages = set.huge_pages != 0;
  opening.index = enumerator(set.index, index_kind::btree, index_kind::hash, function, "index");
  opening.change_index = set.change_index != 0;
  opening.lookup_cache_bytes = set.lookup_cache_bytes;
  opening.block_cache_bytes = set.block_cache_bytes;
  opening.grow_in_background = set.grow_in_background != 0;
  opening.beside_writer = set.beside_writer != 0;
  opening.never_locks = set.never_locks != 0;
  opening.compaction = set.compaction != 0 ? compaction_mode::automatic : compaction_mode::by_call;
  opening.compaction_limits = {.threads = set.compaction_threads,
                               .bytes_per_second = set.compaction_bytes_per_second,
                               .young_bytes = set.compaction_young_bytes,
                               .compress = set.compaction_compress != 0};
  opening.publish_settled = set.publish_settled != 0;
  opening.recovery_threads = set.recovery_threads;
  opening.placements = placements_of(set.placements, set.placement_count, function);
  if (set.shared_as != nullptr) opening.shared_as = set.shared_as;
  opening.on_progress = progress_of(set.on_progress, set.progress_context);
  return opening;
}

std::vector<placement> placements_of(const icecore_placement* given, std::size_t count, const char* function) {
  if (count > 0) require(given, function, "placements");
  std::vector<placement> placements;
  for (std::size_t i = 0; i < count; ++i) {
    require(given[i].path, function, "a placement's path");
    placements.push_back({given[i].path, given[i].node});
  }
  return placements;
}

}  // namespace icecore::c

extern "C" void icecore_options_init(icecore_options* options, size_t struct_size) {
  icecore::c::initialise(options, struct_size, icecore::c::default_options());
}
