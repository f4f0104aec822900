// Whether all that a store answered, over all its lives, is what one ordered map of versions would have answered.
//
//   const verdict v = check(load_history("failed.history"));
//   if (v.violation) std::cerr << *v.violation << '\n';
//
// The records that inspections found after each crash give every key's writes in order, each with its version. What
// remains is to ask whether there is an instant for each write and for each end of a version, between call and return,
// in that order, such that every read saw the state of an instant of its own. Versions make that nearly linear: a
// version's writes come before its end, and that before the next version's writes.
//
// What is checked (the numbers are cited in the sources and the tests):
//   1. Every acknowledged write is found after the crash, in the version that was returned, once, and ever after.
//   2. A write in flight at a crash is found whole by the first inspection after it, or never. So is a named tag.
//   3. Nothing is found or read that nobody wrote; nothing that was read is lost.
//   4. A batch is whole, in one version, at one instant for all its keys.
//   5. A key's records never change, and their versions never fall; no record joins a version that was closed.
//   6. Each write and each end of a version has an instant between call and return, all orders kept: what returned
//      before another was called comes before it, in time as in versions. In flight: before the crash.
//   7. A find, a history and a failed remove saw the key's state of one instant between call and return. An answer
//      "nothing there" names no write; of these, each alone must have an instant, which is all that is asked.
//   8. A find, a scan and an inspection of version v see the newest writes <= v, and none returned before v was closed.
//   9. Each removal that is found was asked for, each successful remove is found. Removals carry no value: where
//   several
//      calls may have made one, only the times of all of them together are asked.
//  10. Tags close distinct versions, growing in time; no version is closed twice, over all lives; none is skipped but
//      by calls that close one without telling (sync, calls in flight), or several (compact).
//
// Threads: any, it is a pure function. Cost: O(n log n); about a microsecond and 300 bytes an operation.
// Source: linearizability with known write order, Gibbons and Korach 1997; strict linearizability, Aguilera and
// Frolund 2003.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "history.hpp"

namespace icecore::testing {

struct verdict {
  std::optional<std::string> violation;  ///< the first one found, in words; empty: all is right
  std::uint64_t operations = 0;          ///< that returned; a batch is one
  std::uint64_t writes = 0;              ///< of these: inserts, removes and batches
  std::uint64_t in_flight = 0;           ///< that a kill interrupted
  std::uint64_t in_flight_kept = 0;      ///< of these: writes that had taken effect
};

[[nodiscard]] verdict check(const history& h);

}  // namespace icecore::testing
