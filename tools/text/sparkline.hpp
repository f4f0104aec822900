// Numbers as a line of blocks, each as high as its number.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace icecore::cli {

/// One column for each number; the greatest is as high as the line. Where there are more numbers than `columns`, a
/// column stands for the greatest of some neighbours. Only 0 is a blank. In a locale that is not UTF-8, of the
/// characters `_.-=#`. O(numbers).
[[nodiscard]] std::string sparkline(std::span<const std::uint64_t> numbers, std::size_t columns);

}  // namespace icecore::cli
