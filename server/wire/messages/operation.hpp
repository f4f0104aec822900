// What a client can ask, by number: the operation of a frame's header.
//
//   const operation_facts* facts = facts_of(header.operation);      // null: there is no such operation
//   if (got.how == outcome::broken && !facts->idempotent) return outcome_unknown();
//
// The status of an answer is 0, or the number of an icecore::errc, or one of the wire's own (frame.hpp). Requests whose
// facts say `on_database` name a database by the handle in the header that `open_database` gave; others have 0 there.
//
// Threads: functions here have no state. Cost: O(1).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace icecore::wire {

/// The numbers are part of the protocol: never renumber, only append.
enum class operation_number : std::uint16_t {
  status = 1,
  group = 2,
  snapshot = 3,
  create_database = 16,
  open_database = 17,
  close_database = 18,
  drop_database = 19,
  list_databases = 20,
  describe_database = 21,
  copy_database = 22,
  alter_database = 23,
  get = 32,
  put = 33,
  remove = 34,
  update = 35,
  increment = 36,
  write = 37,
  get_many = 38,
  load = 39,
  count = 40,
  open_scan = 48,
  open_history = 49,
  open_differences = 50,
  open_changes = 51,
  next_rows = 52,
  close_rows = 53,
  open_watch = 56,
  next_changes = 57,
  close_watch = 58,
  tag = 64,
  list_tags = 65,
  find_tag = 66,
  resolve = 67,
  sync = 68,
  compact = 69,
  grant_lease = 80,
  keep_lease = 81,
  revoke_lease = 82,
  describe_lease = 83,
  list_leases = 84,
};

struct operation_facts {
  operation_number number;
  std::string_view name;  ///< for logs and metrics
  /// Asking twice leads to the same state as asking once. What a second answer says may differ: a removal that is
  /// repeated finds nothing.
  bool idempotent;
  bool on_database;
  bool writes;  ///< changes what is kept; refused where only reading is allowed
};

/// All operations, by number.
[[nodiscard]] std::span<const operation_facts> all_operations() noexcept;
/// Null if there is none of this number.
[[nodiscard]] const operation_facts* facts_of(std::uint16_t number) noexcept;

}  // namespace icecore::wire
