// Sorting the entries that a survey found by their keys, on several threads.
#pragma once

#include <vector>

#include "history/history.hpp"
#include "store/survey.hpp"

namespace icecore::detail {

/// All entries of the survey, ascending by key. O(n log n), O(n) memory: 32 bytes an entry while it runs.
[[nodiscard]] std::vector<link> sorted_entries(const survey& found, const address_space& space, unsigned threads);

}  // namespace icecore::detail
