// The tag that tells of a request to forget, of one store or of all ranks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace icecore {

[[nodiscard]] inline std::string forget_tag_name(std::uint64_t number) { return "forgotten-" + std::to_string(number); }

/// `keys`: that there were, in whatever version. `note`: that of the request.
[[nodiscard]] inline std::string forget_tag_note(std::uint64_t keys, std::string_view note) {
  std::string told = std::to_string(keys) + (keys == 1 ? " key" : " keys");
  if (!note.empty()) told.append(": ").append(note);
  return told;
}

}  // namespace icecore
