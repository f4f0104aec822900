// One connection of the HTTP door: shakes hands, reads a request, sends the answer, and so on until one side has
// enough.
//
// Threads: the door's thread alone. Lifetime: each operation under way holds a reference; the last one that ends
// destroys the connection, and with it closes the socket.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "doors/http/answers.hpp"

namespace icecore::server::http {

/// What connections share. It outlives them.
struct shared {
  sources from;
  std::size_t header_bytes_max;
  std::size_t output_bytes_max;
  std::chrono::milliseconds read_limit;
  std::function<void(const answer&)> on_answer;               ///< each answer, before it is sent
  std::function<void()> on_connections;                       ///< `connections` has changed
  std::function<void(std::string_view)> on_failed_handshake;  ///< the reason

  std::size_t connections = 0;   ///< open now
  std::size_t output_bytes = 0;  ///< of answers that are being sent
};

class connection {
 public:
  connection() = default;
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  virtual ~connection() = default;

  /// Ends it: at once if it waits for a request, else when the answer is sent.
  virtual void finish() = 0;
};

/// Serves a socket; with `tls` after a handshake.
[[nodiscard]] std::shared_ptr<connection> serve(boost::asio::ip::tcp::socket socket,
                                                std::shared_ptr<boost::asio::ssl::context> tls, shared& common);

}  // namespace icecore::server::http
