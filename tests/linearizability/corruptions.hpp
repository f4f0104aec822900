// Ways to spoil a sound history, each so that no store that keeps its promises can have answered so.
//
//   history spoiled = sound;
//   if (spoiled_records()[0].spoil(spoiled, random)) EXPECT_TRUE(check(spoiled).violation);
//
// A corruption looks for a place where it cannot be harmless (a stale read: of a value that had been overwritten, by a
// write that had returned, before the read began) and returns false if the history has none.
#pragma once

#include <random>
#include <string_view>
#include <vector>

#include "history.hpp"

namespace icecore::testing {

struct corruption {
  std::string_view name;
  std::vector<int> rules;  ///< of checker.hpp, one of which must be found broken
  bool (*spoil)(history&, std::mt19937_64&);
};

/// Of what inspections found after a crash, and of what calls were answered.
[[nodiscard]] const std::vector<corruption>& spoiled_records();
[[nodiscard]] const std::vector<corruption>& spoiled_answers();

}  // namespace icecore::testing
