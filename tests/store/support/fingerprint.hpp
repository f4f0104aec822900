// Everything a snapshot holds, as one number.
#pragma once

#include <cstdint>

#include "icecore/snapshot.hpp"

namespace icecore::testing {

/// All keys and values, order and all.
[[nodiscard]] std::uint64_t fingerprint(const snapshot& of);

}  // namespace icecore::testing
