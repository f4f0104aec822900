// The seed of a randomised test: from the environment variable ICECORE_TEST_SEED, or 1. A failure reports the seed that
// replays it.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace icecore::testing {

[[nodiscard]] inline std::uint64_t test_seed() {
  const char* chosen = std::getenv("ICECORE_TEST_SEED");
  return chosen == nullptr ? 1 : std::strtoull(chosen, nullptr, 10);
}

}  // namespace icecore::testing
