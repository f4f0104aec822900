// The numbers of the dump format; docs/dump-format.md is its description.
#pragma once

#include <cstddef>

namespace icecore::cli {

inline constexpr int dump_format_version = 1;

/// Longer values are written in parts of this size, so that no line is long.
inline constexpr std::size_t dump_part_bytes = std::size_t{1} << 20U;

/// A line is never longer: a key and a part, all of their characters escaped, are far below it.
inline constexpr std::size_t dump_line_bytes_max = std::size_t{1} << 24U;

}  // namespace icecore::cli
