// The exit codes of icecore. docs/cli.md documents them and scripts depend on them: never renumber.
#pragma once

#include "icecore/error.hpp"

namespace icecore::cli {

enum class exit_code : int {
  ok = 0,
  negative = 1,          ///< no failure, but a negative answer: not found (as grep), different (as diff)
  usage = 2,             ///< the command line is wrong, or an argument is out of range
  no_store = 3,          ///< no icecore store is at this path, its format is newer, or a store is where none may be
  locked = 4,            ///< another process has the store open, or runs the query
  damaged = 5,           ///< bytes on media fail their check
  damage_found = 6,      ///< verify completed and found damage, or repair completed and something is lost
  no_space = 7,          ///< the device or its quota is full
  not_durable = 8,       ///< the device cannot provide the requested durability, or a sync failed
  io = 9,                ///< a system call failed, or access was denied
  bad_input = 10,        ///< a dump, a git repository, an expression or a token is malformed
  unknown_version = 11,  ///< no such version, tag or query, the version was lost in a power cut, or the name is taken
  internal = 12,         ///< out of memory, or an internal fault
  interrupted = 130,     ///< stopped by SIGINT or SIGTERM; completed work is kept
};

[[nodiscard]] exit_code exit_code_of(errc code) noexcept;

}  // namespace icecore::cli
