// What the processes that share an open store know together. It lies in the store's arena, beside the index.
#pragma once

#include <filesystem>

#include "index/arena.hpp"
#include "store/persistent/durable_media.hpp"
#include "store/write/writer.hpp"

namespace icecore::detail {

/// The arena's root that leads to it.
inline constexpr unsigned store_root = 1;

struct shared_state {
  enum class phase : std::uint32_t { opening, open, closed };

  /// Tells another icecore's arrangement of it, and of what lies beside it, from this one's.
  [[nodiscard]] static std::uint64_t arrangement_of_this() noexcept;

  std::uint64_t arrangement = arrangement_of_this();  ///< first, in every icecore's
  std::atomic<phase> is{phase::opening};
  std::atomic<bool> poisoned{false};
  std::uint8_t pool_id[16]{};
  std::uint64_t epoch = 0;  ///< of the opening: another one's processes have nothing to do with this
  icecore::durability durability{};
  record_totals recovered;                           ///< what was there at opening
  version newest_recovered = 0;                      ///< the newest version that had a record at opening
  std::array<pool_space, format::files_max> spaces;  ///< of each file
  writer_set::state writers;
  durable_media::state lasting;

  shared_state() {
    for (pool_space& space : spaces) {
      space.lock.raises(poisoned);
      space.growing.raises(poisoned);
      space.roots.raises(poisoned);
    }
    writers.gate.raises(poisoned);
    writers.finishing.raises(poisoned);
    writers.partials.lock.raises(poisoned);
    lasting.segments.lock.raises(poisoned);
    lasting.heads.raises(poisoned);
  }

  /// From now on survivors mend what a killed process has left under a lock. Before anyone else is there.
  void make_robust() noexcept {
    for (pool_space& space : spaces) {
      space.lock.make_robust();
      space.growing.make_robust();
      space.roots.make_robust();
    }
    writers.gate.make_robust();
    writers.finishing.make_robust();
    lasting.segments.lock.make_robust();
    lasting.heads.make_robust();
  }

  /// The one that another process has made; null if there is none yet. errc::unsupported_format, which names the file
  /// it is shared as, if it is not arranged as this one's.
  [[nodiscard]] static shared_state* find_in(const index::arena& memory, const std::filesystem::path& shared_as);

  /// A new one. Throws std::bad_alloc.
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
