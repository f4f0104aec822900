// Errors: one exception type, and one set of numbers for C++, C, Python and the wire.
//
//   try { icecore::store s("model.ice"); }
//   catch (const icecore::error& e) { if (e.code() == icecore::errc::locked) wait_for_the_writer(); }
//
// "Not found" is never an error: finds return an empty optional. An error says what failed, where, and what to do.
#pragma once

#include <string>
#include <system_error>

namespace [[gnu::visibility("default")]] icecore {

/// The error codes. Their numbers are part of the C interface and of the wire protocol: never renumber, only append.
enum class errc : int {
  invalid_argument = 1,     ///< an argument is outside its documented range
  key_too_long = 2,         ///< a key of more than 65,535 bytes
  value_too_large = 3,      ///< a value of more than 4 GiB - 1 bytes
  not_a_store = 4,          ///< the file is not an icecore pool, or the path is not a regular file
  unsupported_format = 5,   ///< of an unsupported format, or written by a machine of other byte order
  damaged = 6,              ///< bytes on media fail their check; the message names the place
  truncated = 7,            ///< the file is shorter than its root says
  locked = 8,               ///< another process has the store open; the message names its pid
  no_space = 9,             ///< the device or its quota is full
  io = 10,                  ///< a system call failed; the message names the call, the path and the reason
  not_durable = 11,         ///< the device cannot provide the requested durability
  version_not_closed = 12,  ///< a version was read that no tag has closed yet
  unknown_tag = 13,         ///< no tag has this name, or none is as old as this time
  tag_exists = 14,          ///< another version already carries this tag name
  read_only = 15,           ///< a write to a store opened for reading
  closed = 16,              ///< the store was closed
  forked = 17,              ///< used in a child process after fork; open it again there
  poisoned = 18,            ///< an earlier sync failed, or a process sharing the store died during a change; reopen
  copied = 19,              ///< the file is a copy or was moved while a writer had it open
  no_such_store = 20,       ///< nothing is at this path, and the call does not create a store
  store_exists = 21,        ///< the call creates a new store, and something is already at this path
  bad_input = 22,           ///< text or data is malformed: a dump, an expression; the message names the place
  permission = 23,          ///< the file system denies access
  other_cluster = 24,       ///< the cluster has another number of ranks or ownership, or is incomplete
  protection = 25,          ///< the cluster's current protection does not allow this call
  mpi = 26,                 ///< MPI is not running, an MPI call failed, or ranks called different collective functions
  missing_file = 27,        ///< a file of the store is missing, or another store's file or an old copy is there
  version_lost = 28,        ///< the closed version was not durable, and a power cut took it
  rank_failed = 29,         ///< a rank failed, which the message names; no rank can use the cluster any more
  crash_unknown = 30,       ///< opening cannot find out whether writes survived a crash: set options::crash
  bad_token = 31,           ///< a token or stored filter is damaged, forged or another store's; the message says which
  query_exists = 32,        ///< another query already has this name
  no_such_query = 33,       ///< no query has this name
  query_busy = 34,          ///< the query runs elsewhere; the message names the pid
  unknown_function = 35,    ///< a filter needs a function of the caller that is missing or of another revision
  // Of the service and its clients:
  version_expired = 36,    ///< the version was given up by compact() or the retention rule
  outcome_unknown = 37,    ///< the connection broke while a write was under way: it may have taken effect
  unavailable = 38,        ///< the server cannot be reached, is stopping, or does not serve this database now
  deadline_exceeded = 39,  ///< the call took longer than its deadline; a write may still take effect
  cancelled = 40,          ///< the caller cancelled the call; a write may still take effect
  denied = 41,  ///< no such database, or no right to do this with it: one answer, so that names cannot be probed
  unauthenticated = 42,  ///< the server does not know this user, password or token
  limit_reached = 43,    ///< a limit of the server; the message names it and its value
  no_such_lease = 44,    ///< no lease has this number, or its time is over
  database_exists = 45,  ///< another database of the server already has this name
  not_owner = 46,        ///< the key belongs to another server of the group
};

/// The category of every icecore error code; its name is "icecore". Thread-safe, never fails.
[[nodiscard]] const std::error_category& category() noexcept;

[[nodiscard]] inline std::error_code make_error_code(errc code) noexcept {
  return {static_cast<int>(code), category()};
}

/// The only exception icecore throws besides std::bad_alloc. Programs compare `code()` with `errc`; people read
/// `what()`.
class error : public std::system_error {
 public:
  error(errc code, const std::string& message) : std::system_error(make_error_code(code), message), message_(message) {}

  /// The message without the category's text: what failed, where, and what to do.
  [[nodiscard]] const std::string& message() const noexcept { return message_; }

  [[nodiscard]] const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

}  // namespace icecore

template <>
struct std::is_error_code_enum<icecore::errc> : std::true_type {};
