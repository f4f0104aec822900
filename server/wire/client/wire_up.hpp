// The client's side of the handshake (format/handshake.hpp).
//
//   wired_up wired = wire_up(server, hello, worker, deadline);
//   ucp_ep_h endpoint = worker.make_endpoint(wired.told.worker_address, on_error, this, why);
//   reach(endpoint, wired.socket, worker, deadline);       // requests may be sent
//
// Threads: one at a time. Errors: wire::failure with the server's reason, or what went wrong, within the deadline.
#pragma once

#include <string>

#include "wire/format/handshake.hpp"
#include "wire/transport/control_socket.hpp"
#include "wire/transport/ucx.hpp"

namespace icecore::wire {

struct wired_up {
  control_socket socket;
  welcome told;
};

/// Connects, says hello, and gives the server the address of this side's worker. When it returns, the server's endpoint
/// leads to it.
[[nodiscard]] wired_up wire_up(const socket_address& server, const hello& said, ucx_worker& worker,
                               steady_time deadline);

/// Waits until this side's endpoint leads to the server. The caller closes the endpoint, also if this throws.
void reach(ucp_ep_h endpoint, control_socket& socket, ucx_worker& worker, steady_time deadline);

}  // namespace icecore::wire
