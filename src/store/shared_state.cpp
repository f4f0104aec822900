#include "store/shared_state.hpp"

#include <cstddef>
#include <initializer_list>

#include "base/raise.hpp"
#include "icecore/version.hpp"
#include "index/btree/node.hpp"
#include "index/skip_list/tower.hpp"

namespace icecore::detail {
namespace {

/// FNV-1a of the numbers.
constexpr std::uint64_t digest_of(std::initializer_list<std::uint64_t> numbers) noexcept {
  std::uint64_t digest = 0xcbf29ce484222325U;
  for (const std::uint64_t n : numbers) {
    for (unsigned shift = 0; shift < 64; shift += 8) digest = (digest ^ (n >> shift & 0xff)) * 0x100000001b3U;
  }
  return digest;
}

}  // namespace

/// Sizes alone do not suffice: two members of the same size may have been swapped.
std::uint64_t shared_state::arrangement_of_this() noexcept {
  using slot = writer_slot;
  using writers_of = writer_set::state;
  using durable_of = durable_media::state;
  return digest_of({
      // clang-format off: a line for each structure
      ICECORE_VERSION_MAJOR,
      ICECORE_VERSION_MINOR,
      ICECORE_VERSION_PATCH,
      sizeof(shared_state),
      offsetof(shared_state, is),
      offsetof(shared_state, poisoned),
      offsetof(shared_state, pool_id),
      offsetof(shared_state, epoch),
      offsetof(shared_state, durability),
      offsetof(shared_state, recovered),
      offsetof(shared_state, newest_recovered),
      offsetof(shared_state, superseded_recovered),
      offsetof(shared_state, spaces),
      offsetof(shared_state, writers),
      offsetof(shared_state, durable),
      offsetof(shared_state, closed_versions),
      offsetof(shared_state, tags),
      sizeof(made_tags),
      offsetof(shared_state, tagging),
      offsetof(shared_state, queries),
      sizeof(query_lock),
      offsetof(shared_state, readers),
      offsetof(shared_state, generations),
      offsetof(shared_state, compaction),
      sizeof(pool_space),
      offsetof(pool_space, file),
      offsetof(pool_space, capacity),
      offsetof(pool_space, lock),
      offsetof(pool_space, growing),
      offsetof(pool_space, used_end),
      offsetof(pool_space, size),
      offsetof(pool_space, roots),
      sizeof(slot),
      offsetof(slot, sequence),
      offsetof(slot, last_version),
      offsetof(slot, tail),
      offsetof(slot, position_before),
      offsetof(slot, totals),
      offsetof(slot, filled),
      offsetof(slot, counts),
      offsetof(slot, batched_keys),
      offsetof(slot, pending),
      sizeof(writers_of),
      offsetof(writers_of, slots),
      offsetof(writers_of, gate_closed),
      offsetof(writers_of, gate),
      offsetof(writers_of, recovering),
      offsetof(writers_of, generation),
      offsetof(writers_of, ever_leased),
      offsetof(writers_of, open_lists),
      offsetof(writers_of, processes),
      offsetof(writers_of, filled),
      offsetof(writers_of, totals_before),
      offsetof(writers_of, counts_before),
      offsetof(writers_of, operations_max),
      offsetof(writers_of, naps),
      offsetof(writers_of, gates_shut),
      sizeof(filled_ranges),
      sizeof(open_segments::state),
      offsetof(open_segments::state, bins),
      offsetof(open_segments::state, unused),
      sizeof(shared_generations),
      offsetof(shared_generations, of),
      offsetof(shared_generations, change),
      sizeof(compaction_request),
      offsetof(compaction_request, asking),
      offsetof(compaction_request, served),
      offsetof(compaction_request, asked),
      offsetof(compaction_request, answered),
      offsetof(compaction_request, cancelled),
      offsetof(compaction_request, done),
      offsetof(compaction_request, total),
      offsetof(compaction_request, asker),
      offsetof(compaction_request, wanted),
      offsetof(compaction_request, answer),
      sizeof(compaction_request::options),
      sizeof(compaction_request::reply),
      sizeof(durable_of),
      offsetof(durable_of, index),
      offsetof(durable_of, segments),
      offsetof(durable_of, heads),
      offsetof(durable_of, met),
      offsetof(index::persistent_index::state, top),
      offsetof(index::persistent_index::state, size),
      offsetof(index::persistent_index::state, holders),
      offsetof(index::persistent_index::state, moves_right),
      sizeof(record_totals),
      sizeof(write_counts),
      sizeof(process_lock),
      sizeof(pthread_mutex_t),
      sizeof(index::node),
      sizeof(index::inner_node),
      index::tower::bytes_of(1),
      index::tower::bytes_of(2),
      // clang-format on
  });
}

shared_state* shared_state::find_in(const index::arena& memory, const std::filesystem::path& shared_as) {
  const index::arena_ref place = memory.root(store_root);
  if (place == 0) return nullptr;
  auto* const found = reinterpret_cast<shared_state*>(memory.at(place));
  // the state of another version may be shorter, and may lie at the end of the arena
  if (!memory.contains(place, sizeof found->arrangement) || found->arrangement != arrangement_of_this() ||
      !memory.contains(place, sizeof(shared_state))) {
    raise(errc::unsupported_format, "{}: shared by another version of icecore; all processes must use the same version",
          shared_as.native());
  }
  return found;
}

}  // namespace icecore::detail
