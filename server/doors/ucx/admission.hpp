// Who may connect: the group that the client believes in, the user, the limits.
//
//   wire::admission said = admit(parts, hello, peer);
//
// The job's token was right already. Threads: the one that accepts; a log-in takes some 100 ms there, which delays
// other newcomers and nobody else.
#pragma once

#include <string>

#include "doors/ucx/parts.hpp"
#include "wire/server/connection.hpp"

namespace icecore::doors {

/// What tells one group, and a server's place in it, from others: "NAME:INDEX/SIZE", with an empty name of a server
/// that is alone. A client that tells another one than this in its hello is refused.
[[nodiscard]] std::string identity_of(const service::group_place& place);

[[nodiscard]] wire::admission admit(ucx_parts& door, const wire::hello& said, const std::string& peer);

}  // namespace icecore::doors
