// Executes a transaction: finds out what it changes and what it answers.
//
//   executed done = execute(transaction, present, leases, codec);      // nothing has changed yet
//   done.answer.version = store.apply(done.writes);  done.leases.commit();
//
// Two steps, so that the write path decides how the changes reach the store.
// Errors: icecore::error, and then nothing is to be changed: no_such_lease, key_too_long, value_too_large,
//   invalid_argument, limit_reached.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "icecore/store.hpp"
#include "service/read/value_codec.hpp"
#include "service/transaction.hpp"
#include "service/write/leases.hpp"
#include "service/write/present.hpp"

namespace icecore::service {

/// What one transaction can read or remove by ranges.
inline constexpr std::uint64_t transaction_rows_most = 1'000'000;

struct executed {
  explicit executed(lease_table& of) : leases(of) {}
  outcome answer;
  icecore::batch writes;  ///< empty: nothing changes
  lease_changes leases;
  std::map<std::string, std::optional<std::string>, std::less<>> changed;  ///< what the writes set, not encoded
  std::optional<icecore::version> compacted;                               ///< older versions are given up
};

[[nodiscard]] executed execute(const transaction& what, present& now, lease_table& of, const value_codec& codec);

/// Whether the transaction reads nothing: only puts and removals without conditions, whose answers tell nothing.
[[nodiscard]] bool is_blind(const transaction& what) noexcept;

}  // namespace icecore::service
