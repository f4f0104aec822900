// What block::next holds if a block ends inside its leaf: its last link plus one (links are even, L2). The walk
// continues behind that link's key.
//
// Threads: all functions are pure.
#pragma once

#include <cstdint>

#include "pool/link.hpp"

namespace icecore::index {

[[nodiscard]] constexpr std::uint64_t behind_next(link last) noexcept { return last | 1; }
[[nodiscard]] constexpr bool is_behind(std::uint64_t next) noexcept { return (next & 1) != 0; }
[[nodiscard]] constexpr link link_before(std::uint64_t next) noexcept { return next & ~std::uint64_t{1}; }

}  // namespace icecore::index
