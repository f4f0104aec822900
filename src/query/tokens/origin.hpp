// Which stores' tokens a store takes: its own, and those of the stores that it continues (store/copy/lineage.hpp).
//
// Argument. A token says "up to here", and is answered by what the store shows behind that place. That answer goes on
// where the one before ended if the store that made the token, and this one, have the same records in all versions that
// the token names.
//   - Checkpoints and copies have the store's id, and all its versions.
//   - A repaired store has all versions that the damaged one had closed, N1, below the ancestor's `end`. From there on
//     the two stores may have closed different versions under one number, so tokens of these are refused.
//   - Within a version of which repair has lost something, the place says less than it did: keys that are missing now
//     may lie before or behind it, and a count of changes leads elsewhere. Such tokens are refused (N2), rather than
//     going on with another version's rest. A token that names such a version only as one that was told as a whole is
//     taken: its client has what the store has lost.
// So a token is never answered by something else than what it names. What a *copy* closes after it was made has the
// numbers that the original uses too; who writes to both must not take tokens of such versions from one to the other.
//
// Threads: pure.
#pragma once

#include <optional>

#include "store/copy/lineage.hpp"

namespace icecore::detail {

/// What a token says of its store.
struct token_origin {
  store_id store;
  version closed;                 ///< the greatest version that it names
  std::optional<version> within;  ///< the version in which its place is, unless it is between two
};

/// errc::bad_token, which says why. `name`: "the token", for example.
void require_origin(const pool_set& pools, const token_origin& of, const char* name);

}  // namespace icecore::detail
