// Changes as lines of text, for `feed` and `filter --changes`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "icecore/changes.hpp"
#include "line/arguments.hpp"

namespace icecore::cli {

enum class change_format : std::uint8_t { table, json, csv };

/// The format of changes that -o names.
[[nodiscard]] change_format change_format_of(format as) noexcept;

/// Without the line's end. Csv is that of RFC 4180: version, change, key, value.
[[nodiscard]] std::string change_line(const key_change& change, change_format as, const hex_arguments& hex);
/// What comes before the first line; empty if nothing does.
[[nodiscard]] std::string_view change_heading(change_format as) noexcept;

}  // namespace icecore::cli
