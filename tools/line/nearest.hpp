// The name that someone who mistyped it probably meant.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace icecore::cli {

/// The one of `names` that needs the fewest insertions, removals, replacements and swaps of neighbours to become
/// `asked`; the first of several. Empty if none is near: more than a third of the letters would differ.
/// O(sum of the lengths times the length of `asked`). Source: optimal string alignment distance.
[[nodiscard]] std::optional<std::string> nearest(std::string_view asked, std::span<const std::string> names);

}  // namespace icecore::cli
