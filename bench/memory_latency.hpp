// How long this machine's memory takes to answer: what bounds an ordered map's point operations.
#pragma once

#include <cstddef>

namespace icecore::bench {

/// Nanoseconds of one access to a random cache line of `bytes` of memory, each depending on the one before.
/// `huge_pages`: ask for pages of 2 MiB; else they have 4 KiB.
[[nodiscard]] double random_access_ns(std::size_t bytes, bool huge_pages);

}  // namespace icecore::bench
