// How many bytes of addresses one reservation may take.
#pragma once

#include <cstdint>

namespace icecore {

/// A quarter of the addresses that the process may still take under its limit (RLIMIT_AS, ulimit -v): a store reserves
/// two ranges, and there may be more stores. The greatest number if there is no limit. Allocates no memory.
[[nodiscard]] std::uint64_t address_space_share() noexcept;

}  // namespace icecore
