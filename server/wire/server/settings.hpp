// How a server endpoint listens, and what it allows. Every limit holds as it is written: at the value all is well,
// above it is refused. 0 switches a limit off only where that is said.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "wire/transport/control_socket.hpp"
#include "wire/transport/ucx.hpp"

namespace icecore::wire {

struct server_limits {
  std::uint32_t connections_max = 10'000;                ///< at most 65,535
  std::uint32_t handshakes_max = 256;                    ///< connections that have not finished theirs
  std::uint32_t handshake_ms = 5'000;                    ///< from the first byte to the last, however it trickles
  std::uint32_t frame_bytes_max = (64U << 20) + 65'536;  ///< of a payload
  std::uint32_t requests_in_flight_max = 65'536;         ///< of a connection, not answered yet; at most 65,536
  std::uint64_t bytes_in_flight_max = 256U << 20;        ///< of these; at least frame_bytes_max
  std::uint64_t bytes_all_max = 1U << 30;      ///< of requests and answers of all connections; above it: status_busy
  std::uint64_t output_bytes_slow = 8U << 20;  ///< answers that wait for a client: above it its requests wait, too
  std::uint64_t output_bytes_max = 64U << 20;  ///< a connection that has so many and gets another answer is cut
  std::uint32_t not_reading_ms = 60'000;       ///< a connection whose answers do not move for so long is cut; 0: never
  std::uint32_t frame_ms = 60'000;             ///< from the first piece of a long frame to its last
  std::uint32_t idle_ms = 0;                   ///< a connection without a frame for so long is closed; 0: never
};

struct server_settings {
  socket_address listen{.host = "127.0.0.1", .port = 0};  ///< of the control socket; port 0: a free one
  std::string token{};  ///< of the job, at least 8 bytes: whoever does not know it is not listened to
  ucx_options ucx{};    ///< on a loopback address UCX listens on "lo" alone, unless devices are named here
  std::uint32_t io_threads = 1;
  std::chrono::microseconds spin{
      20};  ///< how long an I/O thread polls before it sleeps; ten times while requests come fast
  server_limits limits{};
};

}  // namespace icecore::wire
