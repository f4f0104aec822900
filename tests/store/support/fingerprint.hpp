// Everything a snapshot holds, as one number.
#pragma once

#include <cstdint>

#include "icecore/snapshot.hpp"

namespace icecore::testing {

/// Covers all keys and values, and their order.
[[nodiscard]] std::uint64_t fingerprint(const snapshot& of);

}  // namespace icecore::testing
