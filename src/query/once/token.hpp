// Tokens of pages (query/tokens/envelope.hpp): layout 1.
//
//   flags  1: from the last key to the first; 2: signed
//   place  the last key that was looked at
//
// Threads: pure.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "icecore/options.hpp"
#include "pool/pool_set.hpp"

namespace icecore::detail {

/// What a token must agree with.
struct token_of {
  const pool_set* store;
  version at;
  std::array<std::uint8_t, 16> filter;
  bool reverse;
  std::string_view secret;  ///< empty: tokens are not signed
};

[[nodiscard]] std::string make_token(const token_of& from, std::string_view key);
/// The key in the token. errc::bad_token, saying what does not agree.
[[nodiscard]] std::string_view key_of_token(const token_of& expected, std::string_view token);

}  // namespace icecore::detail
