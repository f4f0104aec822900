// Chooses some of many links, at equal distances.
#pragma once

#include <cstddef>
#include <vector>

#include "pool/link.hpp"

namespace icecore::index {

/// At most `count` of the candidates, in their order, that divide them into `count` + 1 parts of about equal size.
[[nodiscard]] inline std::vector<link> evenly_chosen(std::vector<link> candidates, std::size_t count) {
  if (candidates.size() <= count) return candidates;
  std::vector<link> chosen;
  chosen.reserve(count);
  for (std::size_t i = 1; i <= count; ++i) chosen.push_back(candidates[i * candidates.size() / (count + 1)]);
  return chosen;
}

}  // namespace icecore::index
