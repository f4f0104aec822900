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

/// What may differ from the truth.
struct allowance {
  bool missing = false;               ///< keys, records and tags may not be there; nothing is there that never was
  bool clock_behind = false;          ///< versions that were closed may be open
  std::set<std::string> any_value{};  ///< keys that may show any value that they ever had
  std::set<std::string> unlisted{};   ///< keys in whose place whatever lists keys may list others once more
};

[[nodiscard]] answers examine(const store& s, const truth& t, const allowance& allowed = {});

/// Whether an error is one that says that the files are not what they should be.
[[nodiscard]] bool reports_damage(const error& failure);

}  // namespace icecore::damaging
