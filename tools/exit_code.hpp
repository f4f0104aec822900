// What the exit status of icecore means. Documented in docs/cli.md; scripts depend on it: never renumber.
#pragma once

#include "icecore/error.hpp"

namespace icecore::cli {

enum class exit_code : int {
  ok = 0,
  negative = 1,          ///< nothing failed, the answer is no: not found (as grep), different (as diff)
  usage = 2,             ///< the command line cannot be understood, or an argument is out of range
  no_store = 3,          ///< no icecore store at this path, one where none may be, or one of a newer format
  locked = 4,            ///< another process has it open
  damaged = 5,           ///< bytes on media fail their check
  damage_found = 6,      ///< verify did its work and found damage, or repair could not save all
  no_space = 7,          ///< the device or its quota is full
  not_durable = 8,       ///< the durability asked for cannot be given, or a sync failed
  io = 9,                ///< a system call failed, or access was denied
  bad_input = 10,        ///< a dump or a git repository cannot be understood
  unknown_version = 11,  ///< no such version or tag, or the tag's name is taken
  internal = 12,         ///< out of memory, or a bug of ours
  interrupted = 130,     ///< stopped by SIGINT or SIGTERM; what was done is kept
};

[[nodiscard]] exit_code exit_code_of(errc code) noexcept;

}  // namespace icecore::cli
