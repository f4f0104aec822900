#include "wire/client/wire_up.hpp"

#include <poll.h>

#include "wire/transport/failure.hpp"

namespace icecore::wire {

namespace {

[[noreturn]] void lost(const control_socket& socket) {
  throw failure("the server at " + socket.peer() + " does not take the handshake", close_reason::lost);
}

/// The server may have said why before it closed the socket that this side still wanted to write to.
void write(control_socket& socket, const byte_buffer& bytes, steady_time deadline) {
  if (socket.write_all(bytes.view(), deadline)) return;
  byte_buffer body;
  static_cast<void>(socket.read_record(body, deadline));
  lost(socket);
}

/// Asks `done` again and again, while UCX goes on and the socket is looked at.
template <class Done>
void go_on_until(ucx_worker& worker, const control_socket& socket, steady_time deadline, const Done& done) {
  constexpr int longest_ms = 10;  // over shared memory nobody rings when there is room again for what UCX holds
  for (;;) {
    while (worker.progress() > 0) {
    }
    if (done()) return;
    if (std::chrono::steady_clock::now() >= deadline) socket.raise_too_slow();
    if (!worker.arm()) continue;
    pollfd polled[] = {{worker.event_descriptor(), POLLIN, 0}, {socket.number(), POLLIN, 0}};
    static_cast<void>(poll(polled, 2, milliseconds_until(deadline, longest_ms)));
  }
}

[[noreturn]] void malformed(const control_socket& socket, const char* what) {
  throw failure("the server at " + socket.peer() + what, close_reason::malformed);
}

}  // namespace

wired_up wire_up(const socket_address& server, const hello& said, ucx_worker& worker, steady_time deadline) {
  const byte_buffer hello_record = encode(said);
  if (hello_record.size() > hello_bytes_max)
    throw failure("token, user, secret, group and name have more than 4 KiB together");
  wired_up made;
  made.socket = connect_to(server, deadline);
  write(made.socket, hello_record, deadline);
  byte_buffer body;
  if (made.socket.read_record(body, deadline) != record_kind::welcome || !decode(body.view(), made.told) ||
      made.told.worker_address.empty() || made.told.requests_in_flight_max == 0) {
    malformed(made.socket, " sent no welcome");
  }
  write(made.socket, encode_address(worker.address()), deadline);
  std::optional<record_kind> read;
  go_on_until(worker, made.socket, deadline, [&] {
    read = made.socket.take_record(body);
    return read.has_value();
  });
  if (read != record_kind::ready) malformed(made.socket, " did not become ready");
  return made;
}

void reach(ucp_ep_h endpoint, control_socket& socket, ucx_worker& worker, steady_time deadline) {
  void* const request = worker.reach(endpoint);
  ucs_status_t status = UCS_INPROGRESS;
  byte_buffer body;
  go_on_until(worker, socket, deadline, [&] {
    if (status == UCS_INPROGRESS) status = ucx_worker::reached(request);
    if (status != UCS_INPROGRESS) return true;
    if (socket.take_record(body)) malformed(socket, " sent a record that does not belong there");
    return false;
  });
  if (status != UCS_OK) {
    throw failure("the server at " + socket.peer() + " cannot be reached: " + ucs_status_string(status),
                  close_reason::lost);
  }
}

}  // namespace icecore::wire
