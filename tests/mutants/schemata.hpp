// What the rewritten sources of schemata.py call: compiled in before everything else.
#pragma once

#include <atomic>

namespace icecore_mutants {

/// Whether the place of this number is taken out; notes that it was reached.
[[nodiscard]] bool out(unsigned place) noexcept;

[[nodiscard]] inline std::memory_order order(unsigned place, std::memory_order as_it_is) noexcept {
  return out(place) ? std::memory_order_relaxed : as_it_is;
}

}  // namespace icecore_mutants
