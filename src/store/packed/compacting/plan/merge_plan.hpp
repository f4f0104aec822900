// What one durable change of a compaction merges: which strata, and which of their keys.
//
//   const merge_plan plan = plan_merge({.core = core, .how = how, .expired = expired, ...});
//
//   strata, youngest first      0 .. with_young   first .. end        end ..
//   merged                      with all young    within `keys`       stay as they are
//                               records
//
// A large merge is done by ranges of keys, one durable change each, from the least keys on. So it takes little more
// space than one range on the way, and one that is cut off goes on where it was: what is merged stays, and the manifest
// marks what is not (format::extent_awaits). The records of one range are merged into extents that take the place of
// the oldest of these strata there:
//
//                      before            behind the first change          at the end
//   young              y                 -                                -
//   with young                           y  outside of the range          -
//   first .. end       s0 [a..z]         s0 [h..z]                        -
//                      s1 [a..z]         y+s0+s1 [a..g]  s1 [h..z]        y+s0+s1 [a..z]
//
// T1 (stratum/strata.hpp) stays true, which is about each key. A range ends at a key where an extent of each of these
// strata ends: so none is cut.
//
// Threads: one. Errors: errc::damaged of the blocks at the ends of extents. Cost: O(extents), and two blocks of each
// stratum for each possible end of a range.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/compaction.hpp"
#include "pool/manifest/manifest.hpp"
#include "store/core.hpp"
#include "store/packed/retention/expiry.hpp"
#include "store/packed/retention/forgetting.hpp"

namespace icecore::detail {

struct merge_plan {
  std::size_t with_young = 0;
  /// with_young, or greater if strata that are between these stay.
  std::size_t first = 0;
  std::size_t end = 0;
  /// Of the strata from `first` on. From "": also what is before their first key; without `to`: all that is left.
  std::string from{};
  std::optional<std::string> to{};
  /// At which later changes may end, behind `to`, ascending: extents that are made now end there, too.
  std::vector<std::string> bounds{};
  std::uint64_t extent_bytes = 0;  ///< of those that are made
  std::uint64_t records = 0;       ///< that are read, at most
  std::uint64_t records_left = 0;  ///< for later changes
  bool merges_thin_strata = false;
  bool goes_on = false;  ///< it is the rest of what another compaction has begun

  /// Whether young records of `keys` are merged with strata from `first` on.
  [[nodiscard]] bool is_one() const noexcept { return with_young == first; }
  /// Whether something of these strata is left behind this change.
  [[nodiscard]] bool leaves_rest() const noexcept { return to.has_value(); }
  [[nodiscard]] bool has(std::string_view key) const noexcept { return key >= from && (!to || key < *to); }
};

struct merge_asked {
  const store_core& core;
  const compaction_options& how;
  const range_list& expired;  ///< behind this compaction
  const forgotten_keys& forgotten;
  std::uint64_t young_records;
  std::uint64_t young_bytes;  ///< of their keys and values
  /// Further changes of a call: `whole` was obeyed by its first one.
  bool is_further = false;
};
[[nodiscard]] merge_plan plan_merge(const merge_asked& asked);

/// Whether versions have expired since one of the extents was made, or do now, of which it may have records. A record
/// goes with the versions from its own on. `expiring`: the greatest version that expires now; 0: none. Cost:
/// O(extents).
[[nodiscard]] bool may_thin(const store_core& core, version expiring, const stratum::strata::range& extents);
/// Whether the manifest marks what a compaction by ranges of keys has not merged yet.
[[nodiscard]] bool is_unfinished(const manifest& m) noexcept;

}  // namespace icecore::detail
