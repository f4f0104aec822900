// Judges the kept queries that a crash left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kept_model.hpp"

namespace icecore::crash {

/// What is wrong with them; empty if nothing is.
[[nodiscard]] std::string judge_queries(const store& s, const std::vector<kept_query>& queries);
/// Runs each to its end, then drops and starts others in the space that is there. `queries` then says what is left.
[[nodiscard]] std::string use_queries(store& s, std::vector<kept_query>& queries, std::uint64_t seed);
/// Whether each segment of queries is in exactly one list.
[[nodiscard]] std::string check_space_of_queries(const store& s);

}  // namespace icecore::crash
