// Colours, where a terminal shows them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace icecore::cli {

enum class colour : std::uint8_t { red, green, yellow, cyan, bold };

/// When output is coloured. `automatic`: if standard output is a terminal, NO_COLOR is not set (https://no-color.org)
/// and TERM is not "dumb".
enum class colouring : std::uint8_t { automatic, always, never };

[[nodiscard]] bool is_coloured(colouring when) noexcept;

/// `text` in a colour, if `on`. Any end of line must be outside it.
[[nodiscard]] std::string painted(std::string_view text, colour in, bool on);

}  // namespace icecore::cli
