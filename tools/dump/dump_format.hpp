// The numbers of the dump format, which docs/dump-format.md describes.
#pragma once

#include <cstddef>

namespace icecore::cli {

inline constexpr int dump_format_version = 1;

/// Longer values are written in parts of this size, so that no line is long.
inline constexpr std::size_t dump_part_bytes = std::size_t{1} << 20U;

/// No line is longer: a line with a key and a part is much shorter even if all their characters are escaped.
inline constexpr std::size_t dump_line_bytes_max = std::size_t{1} << 24U;

}  // namespace icecore::cli
