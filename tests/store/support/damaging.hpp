// Damages files on purpose: which bytes to change, how, and a run over many positions that survives crashes and hangs.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "icecore/error.hpp"

namespace icecore::testing {

[[nodiscard]] std::string flipped(std::string bytes, std::size_t offset, unsigned bit);

/// Whether the error says that the file is not what it should be.
[[nodiscard]] bool is_said_clearly(const error& failure);

/// The positions of bytes that hold something, of their neighbours, and of a sample of the others (all if `every`).
[[nodiscard]] std::vector<std::size_t> offsets_to_flip(const std::string& bytes, bool every);

/// Runs `one` for all positions in children, which may crash or hang; fails the test for each position where it throws.
void for_each_place(const std::vector<std::size_t>& places, const std::function<void(std::size_t)>& one);

}  // namespace icecore::testing
