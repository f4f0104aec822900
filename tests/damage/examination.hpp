// Every question that a store answers, compared with the truth: an answer is right, or an error that tells of damage.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "truth.hpp"

namespace icecore::damaging {

struct answers {
  std::uint64_t right = 0;
  std::uint64_t errors = 0;
  std::string first_error;
  std::string wrong;  ///< the first wrong one
};

/// Of whoever does not accept damage, and of a repaired store that has lost nothing.
[[nodiscard]] answers examine(const store& s, const truth& t);

/// Of whoever accepts it, and of a repaired store: what is lost may be missing, but nothing older is in its place and
/// nothing is there that never was. Of the keys in doubt an older value may be shown.
[[nodiscard]] answers examine_rest(const store& s, const truth& t, const std::set<std::string>& in_doubt);

/// Whether an error is one that says that the files are not what they should be.
[[nodiscard]] bool tells_of_damage(const error& failure);

}  // namespace icecore::damaging
