// State that all processes sharing an open store have in common. It lies in the store's arena, beside the index.
#pragma once

#include <filesystem>

#include "index/arena.hpp"
#include "pool/query/query_lock.hpp"
#include "store/feed/closings.hpp"
#include "store/feed/made_tags.hpp"
#include "store/persistent/durable_media.hpp"
#include "store/query_readers.hpp"
#include "store/sharing/compaction_request.hpp"
#include "store/sharing/generations.hpp"
#include "store/write/writer.hpp"

namespace icecore::detail {

/// The root of the arena that leads to this state.
inline constexpr unsigned store_root = 1;

struct shared_state {
  enum class phase : std::uint32_t { opening, open, closed };

  /// A digest of the layout of this state and of what lies beside it. Another version of icecore has another one.
  [[nodiscard]] static std::uint64_t arrangement_of_this() noexcept;

  std::uint64_t arrangement = arrangement_of_this();  ///< first in every version of icecore
  std::atomic<phase> is{phase::opening};
  std::atomic<bool> poisoned{false};
  std::uint8_t pool_id[16]{};
  std::uint64_t epoch = 0;  ///< of the opening: processes of another opening must not use this state
  icecore::durability durability{};
  record_totals recovered;                           ///< what opening found
  version newest_recovered = 0;                      ///< the newest version that had a record at opening
  std::uint64_t superseded_recovered = 0;            ///< write_counts::superseded_bytes of what opening read
  std::array<pool_space, format::files_max> spaces;  ///< of each file
  writer_set::state writers;
  durable_media::state durable;
  closings closed_versions;  ///< rung when a version was closed, or became durable
  made_tags tags;            ///< all of them
  process_lock tagging;      ///< held from the cut that a certificate counts to its root; by who packs, at the end
  query_lock queries;        ///< of kept queries: held while their segments and runners change (query_space)
  query_readers readers;
  shared_generations generations;
  compaction_request compaction;  ///< of a process that is attached

  shared_state() {
    for (pool_space& space : spaces) {
      space.lock.raises(poisoned);
      space.growing.raises(poisoned);
      space.roots.raises(poisoned);
    }
    writers.gate.raises(poisoned);
    writers.recovering.raises(poisoned);
    for (open_segments::state& list : writers.open_lists) list.lock.raises(poisoned);
    writers.filled.lock().raises(poisoned);
    durable.segments.lock.raises(poisoned);
    durable.heads.raises(poisoned);
    queries.lock.raises(poisoned);
    tags.lock().raises(poisoned);
    tagging.raises(poisoned);
    compaction.asking.raises(poisoned);
  }

  /// From now on survivors repair what a killed process left under a lock. Call before any other process can attach.
  void make_robust() noexcept {
    for (pool_space& space : spaces) {
      space.lock.make_robust();
      space.growing.make_robust();
      space.roots.make_robust();
    }
    writers.gate.make_robust();
    writers.recovering.make_robust();
    writers.filled.lock().make_robust();
    durable.segments.lock.make_robust();
    durable.heads.make_robust();
    queries.lock.make_robust();
    tags.lock().make_robust();
    tagging.make_robust();
    compaction.asking.make_robust();
  }

  /// The state that another process has made; null if there is none yet. errc::unsupported_format, naming the file it
  /// is shared as, if its layout differs from this process's.
  [[nodiscard]] static shared_state* find_in(const index::arena& memory, const std::filesystem::path& shared_as);

  /// Makes a new one. Throws std::bad_alloc.
  [[nodiscard]] static shared_state& make_in(index::arena& memory) {
    constexpr std::size_t units = alignof(shared_state) / index::arena::unit_bytes;
    index::arena_ref place = memory.allocate(sizeof(shared_state) + alignof(shared_state));
    place = static_cast<index::arena_ref>((place + units - 1) / units * units);
    auto* made = new (memory.at(place)) shared_state;
    memory.set_root(store_root, place);
    return *made;
  }
};

}  // namespace icecore::detail
