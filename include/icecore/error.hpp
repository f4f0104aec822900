// Errors: one exception type, one numbering shared by C++, C, Python and the wire.
//
//   try { icecore::store s("model.ice"); }
//   catch (const icecore::error& e) { if (e.code() == icecore::errc::locked) wait_for_the_writer(); }
//
// "Not found" is never an error: finds return an empty optional. An error says what failed, where, and what to do.
#pragma once

#include <string>
#include <system_error>

namespace [[gnu::visibility("default")]] icecore {

/// What went wrong. The numbers are part of the C interface and of the wire protocol: never renumber, only append.
enum class errc : int {
  invalid_argument = 1,     ///< an argument is outside its documented range
  key_too_long = 2,         ///< a key of more than 65,535 bytes
  value_too_large = 3,      ///< a value of more than 4 GiB - 1 bytes
  not_a_store = 4,          ///< the file is no icecore pool, or the path is not a regular file
  unsupported_format = 5,   ///< written by a newer icecore, or by a machine of other byte order
  damaged = 6,              ///< bytes on media fail their check; the message names the place
  truncated = 7,            ///< the file is shorter than it says it must be
  locked = 8,               ///< another process has the store open; the message names its pid
  no_space = 9,             ///< the device or its quota is full
  io = 10,                  ///< a system call failed; the message names call, path and reason
  not_durable = 11,         ///< the device cannot give the durability that was asked for
  version_not_closed = 12,  ///< a version was read that no tag has closed yet
  unknown_tag = 13,         ///< no tag has this name, or none is as old as this time
  tag_exists = 14,          ///< another version already carries this tag name
  read_only = 15,           ///< a write to a store opened for reading
  closed = 16,              ///< the store was closed
  forked = 17,              ///< used in a child process after fork; open it again there
  poisoned = 18,            ///< an earlier sync failed, or a process that shared it was killed amid a change; reopen
  copied = 19,              ///< the file is a copy or was moved while a writer had it open
  no_such_store = 20,       ///< nothing is at this path and creating was not asked for
  store_exists = 21,        ///< a new store was asked for and something is already there
  bad_input = 22,           ///< text or data given to load cannot be understood; the message names the line
  permission = 23,          ///< the file system denies access
  other_cluster = 24,       ///< a cluster of another number of ranks or ownership, or one of which something is missing
  protection = 25,          ///< the cluster's protection does not allow this call at the moment
  mpi = 26,                 ///< MPI is not running, an MPI call failed, or ranks called different collective functions
  missing_file = 27,        ///< a file of a store of several is not there, or another store's or an old copy is
  version_lost = 28,        ///< a closed version was read that a power cut took: it was not durable
  rank_failed = 29,    ///< a rank of the cluster failed, which the message names: nobody can use the cluster any more
  crash_unknown = 30,  ///< nothing tells whether writes not yet durable survived a crash; say it (options::crash)
};

/// The category of every icecore error code; its name is "icecore". Thread-safe, never fails.
[[nodiscard]] const std::error_category& category() noexcept;

[[nodiscard]] inline std::error_code make_error_code(errc code) noexcept {
  return {static_cast<int>(code), category()};
}

/// The one exception icecore throws, besides std::bad_alloc. `code()` compares with `errc`; `what()` is for people.
class error : public std::system_error {
 public:
  error(errc code, const std::string& message) : std::system_error(make_error_code(code), message), message_(message) {}

  /// The message alone, without the category's text: what, where and what to do.
  [[nodiscard]] const std::string& message() const noexcept { return message_; }

  [[nodiscard]] const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

}  // namespace icecore

template <>
struct std::is_error_code_enum<icecore::errc> : std::true_type {};
