// What a client asks to be changed, as data: conditions, then one of two lists of operations, at one instant.
//
//   transaction t;
//   t.conditions.push_back({.key = "lock", .is = condition::absent});
//   t.then.push_back(operation::put("lock", "me"));
//   db.write(std::move(t), [](result<outcome> done) { ... });
//
// A transaction is plain data, so that the same list of transactions always leads to the same state: a log of them can
// be carried to another server and executed there. Doors translate what their protocol says into it. What the one who
// asks is allowed stands beside the data: it can only refuse the whole.
//
// Operations of one list take effect in their order: a read shows what those before it wrote. A key may be written
// several times in one list only if the door says so; the last one counts.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "icecore/error.hpp"
#include "icecore/options.hpp"
#include "icecore/snapshot.hpp"
#include "service/limits.hpp"

namespace icecore::service {

using lease_number = std::uint64_t;  ///< 0: none

/// How an update of a part of a value treats what is there. `size` is that of the value that is there, `offset` and
/// `length` those of the part.
enum class update_rule : std::uint8_t {
  in_place,  ///< the key must be there, and offset + length <= size; else not applied, too_large
  expand,    ///< in place if it fits; grows the value from offset >= size (zeros between); else not applied, overlap
  expand_overlap,  ///< in place if it fits, grows the value else (zeros between)
  replace_from,    ///< the key must be there, offset <= size: the new size is offset + length; else too_large
  append,          ///< behind the end; the offset is ignored; a key that is not there begins empty
};

struct operation {
  enum class kind : std::uint8_t {
    put,           ///< sets the value
    put_new,       ///< sets the value if the key is not there; else not applied, exists
    remove,        ///< removes the key
    remove_range,  ///< removes all keys from `key` up to, not including, `end`
    update,        ///< changes a part of the value by `rule`
    upsert,        ///< as update, but a key that is not there is put (offset zeros before it)
    increment,     ///< adds `number` to the value, a decimal number of 64 bits; a key that is not there counts as 0
    get,           ///< reads the value
    get_range,     ///< reads the keys from `key` up to, not including, `end`: at most `limit`
    // The database's own, which no door sends:
    grant_lease,   ///< the lease `lease` begins, for `number` ms
    end_lease,     ///< the lease `lease` ends, and its keys are removed
    expire_lease,  ///< as end_lease, if its time is over: a number may have been granted again meanwhile
    compact,       ///< versions before `number` are given up
  };
  operation::kind what = kind::put;
  std::string key;
  std::string end{};    ///< empty: no end
  std::string value{};  ///< the value, or the part of it
  update_rule rule = update_rule::in_place;
  std::uint64_t offset = 0;
  std::int64_t number = 0;
  std::uint64_t limit = 0;  ///< 0: none
  /// The lease that the key ends with; 0: none, and a put takes the key from the lease that it had.
  lease_number lease = 0;
  bool previous = false;  ///< the answer holds the value that was there

  [[nodiscard]] bool writes() const noexcept { return what != kind::get && what != kind::get_range; }
  [[nodiscard]] bool names_range() const noexcept { return what == kind::remove_range || what == kind::get_range; }
  [[nodiscard]] static operation put(std::string key, std::string value) {
    return {.what = kind::put, .key = std::move(key), .value = std::move(value)};
  }
  [[nodiscard]] static operation remove(std::string key) { return {.what = kind::remove, .key = std::move(key)}; }
};

struct condition {
  enum class kind : std::uint8_t {
    present,
    absent,
    version_is,     ///< the key's newest record has exactly `version` (0: it is absent)
    version_below,  ///< smaller; an absent key counts as version 0
    version_above,  ///< greater
    version_is_not,
    value_is,      ///< the key is there, with exactly `value`
    value_is_not,  ///< the key is there, with another value
    value_below,   ///< bytewise smaller
    value_above,   ///< bytewise greater
  };
  std::string key;
  condition::kind is = kind::present;
  icecore::version version = 0;
  std::string value{};
};

/// What a transaction may take and do, as far as only its execution shows it. What goes beyond refuses it, before
/// anything has changed.
struct allowance {
  std::uint64_t read_bytes_max = 0;  ///< of all that it reads, with the keys; 0: no bound. errc::limit_reached
  /// What reads copy, and the values that partial updates make, take of it until the outcome ends: errc::limit_reached.
  /// Null: nothing.
  gauge* memory = nullptr;
  /// Called with each key that the end of a lease removes; throws if the one who asks may not.
  std::function<void(std::string_view key)> may_remove{};
};

struct transaction {
  std::vector<condition> conditions{};
  std::vector<operation> then{};       ///< if all conditions hold
  std::vector<operation> otherwise{};  ///< if one does not
  allowance allowed{};

  /// What this takes of memory while it waits. O(operations).
  [[nodiscard]] std::size_t bytes() const noexcept;
};

/// One key with its value, copied.
struct row {
  std::string key;
  std::string value;
  icecore::version version = 0;  ///< of the record that is shown
  friend bool operator==(const row&, const row&) = default;
};

/// What became of one operation.
struct operation_result {
  enum class state : std::uint8_t {
    done,
    absent,     ///< the key is not there: nothing was removed, read or updated
    exists,     ///< the key is there already: not applied
    too_large,  ///< the part does not fit: not applied
    overlap,    ///< the part reaches over the end of the value: not applied
    no_number,  ///< the value is no decimal number of 64 bits, or the sum would be none: not applied
  };
  operation_result::state is = state::done;
  std::optional<row> previous{};  ///< what was there, if it was asked for
  std::vector<row> rows{};        ///< of a read
  bool more = false;              ///< a read of a range ended at its limit
  std::uint64_t count = 0;        ///< keys removed or read
  std::uint64_t size = 0;         ///< of the value after an update
  std::int64_t number = 0;        ///< after an increment
};

struct outcome {
  bool succeeded = true;         ///< whether all conditions held
  icecore::version version = 0;  ///< that the writes belong to; without writes, the newest version that was visible
  std::vector<operation_result> results{};
  std::shared_ptr<gauge::share> held{};  ///< what it took of `allowance::memory`; null: nothing
};

/// An error as a value: what crosses threads and doors.
struct failure {
  errc code;
  std::string message;
};
/// The failure that an exception stands for; std::bad_alloc is errc::limit_reached, unknown ones errc::io.
[[nodiscard]] failure failure_of(const std::exception_ptr& thrown);
[[noreturn]] void raise(const failure& what);

template <typename Value>
using result = std::variant<Value, failure>;

/// Called exactly once, on any thread, perhaps before the call that it was given to returns. It must not block and not
/// throw.
using completion = std::function<void(result<outcome>)>;

}  // namespace icecore::service
