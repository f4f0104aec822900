#include "wire/client/wire_up.hpp"

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

}  // namespace

wired_up wire_up(const socket_address& server, const hello& said, std::span<const std::byte> worker_address,
                 steady_time deadline) {
  const byte_buffer hello_record = encode(said);
  if (hello_record.size() > hello_bytes_max)
    throw failure("token, user, secret, group and name have more than 4 KiB together");
  wired_up done;
  done.socket = connect_to(server, deadline);
  write(done.socket, hello_record, deadline);
  byte_buffer body;
  if (done.socket.read_record(body, deadline) != record_kind::welcome || !decode(body.view(), done.told) ||
      done.told.worker_address.empty() || done.told.requests_in_flight_max == 0) {
    throw failure("the server at " + done.socket.peer() + " sent no welcome", close_reason::malformed);
  }
  write(done.socket, encode_address(worker_address), deadline);
  if (done.socket.read_record(body, deadline) != record_kind::ready) {
    throw failure("the server at " + done.socket.peer() + " did not become ready", close_reason::malformed);
  }
  return done;
}

}  // namespace icecore::wire
