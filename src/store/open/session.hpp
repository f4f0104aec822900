// What each opening for writing does with what it found, however it found it.
#pragma once

#include "icecore/options.hpp"
#include "pool/pool_set.hpp"
#include "store/write/record_totals.hpp"

namespace icecore::detail {

/// What was there when a store was opened.
struct found_store {
  bool crashed = false;    ///< the last writer died with it open
  bool same_boot = false;  ///< and its memory survived it
  version newest = 0;      ///< the greatest stamp
  version newest_tag = 0;  ///< that of a tag
  record_totals totals;
};

/// What a root says before an opening for writing changes anything. After a crash no evidence of before counts
/// (index/persistent/evidence.cpp, E3).
void begin_epoch(format::root& r, bool crashed) noexcept;

/// The last writer is dead, so others who want to write are not told of it. What it says of its machine stays, until
/// a session begins.
void forget_writer(const pool_set& pools) noexcept;

/// What ended the last session of a store that was not closed (docs/design/0012-crashes-of-unknown-kind.md). One boot:
/// the process alone. Else what the user says it was. Else, in another boot of the same host: the machine. Nothing is
/// known of other hosts, which may run on, and may have written to this file over a network.
[[nodiscard]] crash_kind what_crashed(const pool_set& p, crash_kind said);

/// C2 and G5: no version is used twice. The live page's clock counts only if this boot wrote it.
[[nodiscard]] version clock_after(const pool_set& p, const found_store& found);

/// The closed versions of a session that ended in a power cut, where not all that was acknowledged survives: all behind
/// the durable ones, up to the new clock. Which numbers were given out nobody knows any more.
[[nodiscard]] version_range lost_in_power_cut(const format::root& last, version clock) noexcept;

/// Writes the root of the session that begins: all there is counts, whatever comes is yet to be certified. Where fills
/// stand for that the certified version is 0; else it is `newest`, and the clock must be greater.
void start_session(pool_set& p, const found_store& found, version certified,
                   const std::function<void(format::root&)>& more);

}  // namespace icecore::detail
