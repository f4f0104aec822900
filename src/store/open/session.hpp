// What each opening for writing does with what it found, by a record scan or by instant recovery.
#pragma once

#include "icecore/options.hpp"
#include "pool/pool_set.hpp"
#include "store/write/record_totals.hpp"

namespace icecore::detail {

/// What opening found in a store.
struct found_store {
  bool crashed = false;    ///< the last writer died with it open
  bool same_boot = false;  ///< it died in this boot of the machine, so its memory survived
  version newest = 0;      ///< the greatest stamp
  version newest_tag = 0;  ///< the greatest stamp of a tag
  record_totals totals;
};

/// Begins an epoch in a root, before an opening for writing changes anything. After a crash no earlier evidence counts
/// (index/persistent/evidence.cpp, E3).
void begin_epoch(format::root& r, bool crashed) noexcept;

/// The last writer is dead: clears its process id, so that the error for other would-be writers does not name it. The
/// name of its machine stays until a session begins.
void forget_writer(const pool_set& pools) noexcept;

/// What ended the last session of a store that was not closed (docs/design/0012-crashes-of-unknown-kind.md). In the
/// same boot: only the process died. Otherwise what the user says. Otherwise, in another boot of the same host: the
/// machine stopped. Of other hosts nothing is known: they may still run, and may have written to this file over a
/// network.
[[nodiscard]] crash_kind what_crashed(const pool_set& p, crash_kind said);

/// The clock to continue with. C2 and G5: no version is used twice. The live page's clock counts only if this boot
/// wrote it.
[[nodiscard]] version clock_after(const pool_set& p, const found_store& found);

/// The closed versions of a session that ended in a power cut and lost some of what it acknowledged: all behind the
/// durable ones, up to the new clock. Which of these numbers were in use is no longer known.
[[nodiscard]] version_range lost_in_power_cut(const format::root& last, version clock) noexcept;

/// Writes the root of the session that begins: everything there counts, and everything that follows is yet to be
/// certified. `certified` is 0 if the fill ends vouch for what is there; otherwise it is `newest`, and the clock must
/// be greater.
void start_session(pool_set& p, const found_store& found, version certified,
                   const std::function<void(format::root&)>& more);

}  // namespace icecore::detail
