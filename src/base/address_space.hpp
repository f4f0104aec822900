// How many addresses one reservation may take.
#pragma once

#include <cstdint>

namespace icecore {

/// A quarter of what the process may still take where that is limited (RLIMIT_AS, ulimit -v): a store reserves two
/// ranges, and there may be more stores. Where nothing limits it the greatest number. Takes no memory.
[[nodiscard]] std::uint64_t address_space_share() noexcept;

}  // namespace icecore
