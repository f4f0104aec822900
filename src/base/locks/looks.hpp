// How long a thread waits for a thread of another process before it checks whether that process is alive.
#pragma once

namespace icecore {

/// Rounds of a wait, each with a backoff::pause(), between two such checks. After the first 64 rounds each one yields
/// the core, and may get it back only after all other threads had their turn. So a check, which takes one or more
/// system calls, must not be many turns away.
inline constexpr unsigned rounds_between_looks = 128;

}  // namespace icecore
