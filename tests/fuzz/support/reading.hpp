// Reading all that a store shows, in all ways, and finding that it agrees with itself: what can be asked of a store of
// which nobody knows what it must hold.
#pragma once

#include <string>

#include "icecore/store.hpp"

namespace icecore::testing {

/// Throws broken_promise where two readings disagree, and what the store throws: errc::damaged at a large value.
void read_in_all_ways(const store& opened);

/// The store as `icecore dump` writes it: everything that can be read, in one string.
[[nodiscard]] std::string dump_of(const store& opened);

}  // namespace icecore::testing
