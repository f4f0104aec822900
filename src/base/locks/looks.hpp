// How long is waited for a thread of another process before it is asked whether that process still lives.
#pragma once

namespace icecore {

/// Rounds of a wait, each with a backoff::pause(), between two such looks. Beyond the first 64 each round gives the
/// core away, and may get it back only when all others have had their turn: a look, which is a system call or some,
/// must not be many turns away.
inline constexpr unsigned rounds_between_looks = 128;

}  // namespace icecore
