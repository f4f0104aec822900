// Damaging files on purpose: which bytes to spoil, how, and a run over many places that survives crashes and hangs.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "icecore/error.hpp"

namespace icecore::testing {

[[nodiscard]] std::string flipped(std::string bytes, std::size_t offset, unsigned bit);

/// Whether an error is one that says that the file is not what it should be.
[[nodiscard]] bool is_said_clearly(const error& failure);

/// Bytes that hold something, their neighbours, and a sample of the others: all of them if `every`.
[[nodiscard]] std::vector<std::size_t> offsets_to_flip(const std::string& bytes, bool every);

/// Runs `one` for all places in children, which may crash or hang; fails the test for each place where it throws.
void for_each_place(const std::vector<std::size_t>& places, const std::function<void(std::size_t)>& one);

}  // namespace icecore::testing
