// What the writers of one store do whose interleavings are explored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "content.hpp"
#include "orders.hpp"

namespace icecore::crash {

struct planned {
  answered::kind what;
  std::vector<answered::write> writes{};
  version expected = 0;
};

struct scenario {
  std::string name;
  story_options how;
  std::vector<std::string> before;  // keys that are there
  std::vector<std::vector<planned>> writers;
  bool cut_off =
      false;  // a kill cut off a write to the key k behind the exchange of its head, which leads to nothing now
};

/// Small ones, for all interleavings: of every kind of index.
[[nodiscard]] std::vector<scenario> all_scenarios();

/// A larger one, drawn from a seed.
[[nodiscard]] scenario random_scenario(std::uint64_t seed);

}  // namespace icecore::crash
