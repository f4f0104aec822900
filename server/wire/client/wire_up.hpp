// The client's side of the handshake (format/handshake.hpp).
//
// Threads: one at a time. Errors: wire::failure with the server's reason, or what went wrong, within the deadline.
#pragma once

#include <string>

#include "wire/format/handshake.hpp"
#include "wire/transport/control_socket.hpp"

namespace icecore::wire {

struct wired_up {
  control_socket socket;
  welcome told;
};

/// Connects, says hello, and gives the server the address of this side's worker. When it returns, the server is ready.
[[nodiscard]] wired_up wire_up(const socket_address& server, const hello& said,
                               std::span<const std::byte> worker_address, steady_time deadline);

}  // namespace icecore::wire
