// The ways in which a damaged store is used: read, read with its damage accepted, repaired, verified, written on.
#pragma once

#include <string>

#include "corruption.hpp"
#include "subject.hpp"

namespace icecore::damaging {

enum class way { accepting, repairing, verifying, writing };
inline constexpr way all_ways[] = {way::accepting, way::repairing, way::verifying, way::writing};

struct outcome {
  bool reported = false;  ///< some question, or all, was answered by an error
  std::string wrong;      ///< what was promised otherwise; empty: nothing
};

/// Reads the damaged store, and uses it in one way more.
[[nodiscard]] outcome use(const subject& s, const corruption& c, way how);

}  // namespace icecore::damaging
