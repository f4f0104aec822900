// What all tokens have in common: positions that the client keeps.
//
//   OFFSET SIZE MEANING
//        0    1  layout of the token; later layouts get other numbers, and all stay readable
//        1    1  flags: of its kind (once/token.hpp, feed/position.hpp)
//        2   16  the id of the store that made it
//       18    8  the version
//       26   16  the filter's fingerprint
//       42    4  CRC32C of all other bytes, started with the kind's own number
//       46   32  if it is signed: HMAC-SHA-256, by the caller's secret, of bytes 0 to 41 and all behind the signature
//  46 or 78    n  the place, as the kind has it
//
// Layouts: 1: of pages, signed if flag 2 is set; 2: of feeds; 3: of feeds, signed.
//
// Threads: pure.
// Errors: errc::bad_token, saying what does not agree.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "icecore/options.hpp"
#include "query/tokens/origin.hpp"

namespace icecore::detail {

/// A kind of tokens.
struct token_kind {
  const char* name;         ///< in messages: "the token"
  const char* plural;       ///< "tokens of pages"
  std::uint32_t crc_start;  ///< so that a token of one kind is none of another
  std::uint8_t layout;
  std::uint8_t signed_layout;
  std::uint8_t signed_flag;  ///< 0: the layout tells
  std::uint8_t flags_known;  ///< without that one
  std::size_t place_min;     ///< bytes of the shortest place
};

/// What a token says, but for the place.
struct token_head {
  std::uint8_t flags = 0;
  store_id store{};
  version at = 0;
  std::array<std::uint8_t, 16> filter{};
};

/// `secret`: empty: it is not signed.
[[nodiscard]] std::string sealed_token(const token_kind& kind, const token_head& head, std::string_view place,
                                       std::string_view secret);

struct opened_token {
  token_head head;
  std::string_view place;  ///< in the token
};
/// Checks all but what the head says.
[[nodiscard]] opened_token open_token(const token_kind& kind, std::string_view token, std::string_view secret);

}  // namespace icecore::detail
