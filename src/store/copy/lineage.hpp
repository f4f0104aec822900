// Which stores a store continues: repair makes a file with an id of its own, whose versions are those of the damaged
// one. Tokens name the store that gave them, so a repaired store must know whose it can take (query/tokens/origin.hpp).
//
//   lineage now = lineage_of(from).value_or(lineage{});
//   now.add(from's root, open version, versions of which something is lost);
//   store_lineage(to, now);                               // durable when it returns
//
// Threads: pure; store_lineage() while nobody else has the store.
// Crash: the page is written while the store has the name of an unfinished one, which no crash leaves as a store.
// Invariants:
//   N1. An ancestor's closed versions below its `end` are this store's, record for record, but for those in `altered`.
//       Versions from `end` on are not: both stores may go on, each with versions of its own under the same numbers.
//   N2. A version is in `altered` if a record of it is lost, or one that it would show. If repair cannot tell which key
//       a loss belonged to, all versions are. So `altered` may name too many versions, never too few.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "icecore/options.hpp"
#include "icecore/version_ranges.hpp"
#include "pool/pool_set.hpp"

namespace icecore {

using store_id = std::array<std::uint8_t, sizeof(format::root::pool_id)>;

[[nodiscard]] store_id id_of(const format::root& r) noexcept;

struct lineage {
  struct ancestor {
    store_id id;
    version end;
  };
  std::vector<ancestor> ancestors;  ///< oldest first
  version_ranges altered;

  /// Null if the store does not continue that one.
  [[nodiscard]] const ancestor* find(const store_id& id) const noexcept;
  /// For the store that continues the one with this root from version `open` on.
  void add(const format::root& of, version open, const version_ranges& lost);
};

/// What the store says. Empty if its page is damaged; no ancestors if it was not made by repair.
[[nodiscard]] std::optional<lineage> lineage_of(const pool_set& pools);
void store_lineage(const pool_set& pools, const lineage& what);

/// Its page, damaged or not, as a copy of the store needs it; empty if it is zero.
[[nodiscard]] std::span<const std::byte> lineage_bytes(const pool_set& pools);
/// Its damage, in a place that is a link.
[[nodiscard]] std::optional<damage> lineage_damage(const pool_set& pools);

}  // namespace icecore
