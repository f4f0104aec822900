// Which bytes are UTF-8: to refuse, or to replace, what is not.
//
//   utf8_length("é...")  -> 2, the bytes of the first character          utf8_length("\xff")  -> 0: none begins here
//
// Threads: pure functions. Cost: O(1) and O(length). Overlong forms, surrogates and what is above U+10FFFF are no
// UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace icecore::server {

/// The bytes of the character at the beginning of `text`; 0 if there is none that is complete and valid.
[[nodiscard]] constexpr std::size_t utf8_length(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  // the second byte's range depends on the first one: no overlong form, no surrogate, nothing above U+10FFFF
  const unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (at(1) < least || at(1) > most) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (at(i) < 0x80 || at(i) > 0xbf) return 0;
  }
  return length;
}

[[nodiscard]] constexpr bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace icecore::server
