// Random damage to a store's files: a piece of them is not what it was.
#pragma once

#include <cstdint>
#include <string>

#include "subject.hpp"

namespace icecore::damaging {

struct corruption {
  std::string what;    ///< kind, for counting: "sector stale"
  std::string detail;  ///< where
  crash::kept_files files;
};

/// Damage drawn from a seed. It may leave everything as it was.
[[nodiscard]] corruption corrupt(const subject& s, std::uint64_t seed);

}  // namespace icecore::damaging
