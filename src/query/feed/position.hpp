// A place in a feed, and the token that tells it (query/tokens/envelope.hpp): layout 2, or 3 if it is signed.
//
//   flags  1: within the snapshot; 2: it has a key; 4: beyond_lost
//   place  8 bytes: changes of the version that were told; then, within the snapshot, the last key that was looked at
//
// Threads: values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "icecore/options.hpp"
#include "pool/pool_set.hpp"

namespace icecore::detail {

/// All versions below `at` are told, and of `at` itself the first `changes`, whether they match or not. Or, within the
/// snapshot: of version `at` all keys up to `key`, or none if it is empty (`key_known` false).
struct feed_position {
  version at = 1;
  std::uint64_t changes = 0;
  bool in_snapshot = false;
  bool key_known = false;
  std::string key{};
  /// The version that the place needs was lost already when the feed came by: nothing that was told went with it.
  bool beyond_lost = false;

  /// The newest version of which something was told: if a power cut took it since, what was told is not so any more.
  [[nodiscard]] version needs() const noexcept { return in_snapshot || changes > 0 ? at : at - 1; }
  /// Whether it lies before another place of the same feed. The snapshot comes before the version behind its own.
  [[nodiscard]] bool before(const feed_position& other) const noexcept {
    if (in_snapshot != other.in_snapshot) return in_snapshot;
    return std::tie(at, changes, key_known, key) < std::tie(other.at, other.changes, other.key_known, other.key);
  }
  /// The greatest version that is told as a whole; 0 within a snapshot.
  [[nodiscard]] version told() const noexcept { return in_snapshot ? 0 : at - 1; }
};

/// What a token must agree with.
struct feed_identity {
  const pool_set* store = nullptr;
  std::array<std::uint8_t, 16> filter{};
  std::string secret{};  ///< empty: tokens are not signed
};

[[nodiscard]] std::string token_of(const feed_identity& feed, const feed_position& place);
/// What a token that is not signed says, whatever feed it is of. errc::bad_token if it is damaged.
[[nodiscard]] feed_position place_in(std::string_view token);
/// errc::bad_token, saying what does not agree.
[[nodiscard]] feed_position position_of(const feed_identity& feed, std::string_view token);

}  // namespace icecore::detail
