// A small store with something of every kind in it, and what it holds.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/model.hpp"

namespace icecore::testing {

/// Fills a new store at `path` with a few dozen records: updates, removals, batches, a large value, tags with names,
/// notes and times. Leaves it open.
[[nodiscard]] store fill_small_store(const std::filesystem::path& path, const options& opening, model& holds);

/// Reads everything of the store that a user can read and compares it with the model. Throws broken_promise at the
/// first wrong answer, and whatever the store throws.
void read_everything(const store& opened, const model& holds);

}  // namespace icecore::testing
