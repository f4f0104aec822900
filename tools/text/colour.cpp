#include "text/colour.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "text/output.hpp"

namespace icecore::cli {
namespace {

int code_of(colour one) noexcept {
  switch (one) {
    case colour::red:
      return 31;
    case colour::green:
      return 32;
    case colour::yellow:
      return 33;
    case colour::cyan:
      return 36;
    case colour::bold:
      break;
  }
  return 1;
}

}  // namespace

bool is_coloured(colouring when) noexcept {
  if (when != colouring::automatic) return when == colouring::always;
  const char* const refused = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  if (refused != nullptr && *refused != '\0') return false;
  if (terminal != nullptr && std::string_view(terminal) == "dumb") return false;
  return stdout_is_terminal();
}

std::string painted(std::string_view text, colour in, bool on) {
  return on ? fmt::format("\x1b[{}m{}\x1b[0m", code_of(in), text) : std::string(text);
}

}  // namespace icecore::cli
