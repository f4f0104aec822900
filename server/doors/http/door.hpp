// The HTTP door: /metrics, /healthz and /readyz over HTTP/1.1, with or without TLS 1.3.
//
//   http::door door({.host = "127.0.0.1", .port = 7481}, {.metrics = ..., .not_ready = ...}, registry, report);
//   std::cout << door.address();                    // "127.0.0.1:7481"
//
// It is for a few clients that ask seldom: one thread answers them all, one answer at a time.
//
// Bounds: `connections_max` connections (others are closed at once), `header_bytes_max` for a request, which has no
// body, `output_bytes_max` for all answers that are being sent (others are 503), and `read_limit` for each step of a
// connection: shaking hands, a request to arrive, waiting for the next one, an answer to be taken. Memory never exceeds
// the bounds of output and connections and one answer that is being made. Errors: the constructor throws errc::io if
// the address cannot be listened on, and errc::bad_input for certificates (tls.hpp). What goes wrong later is counted,
// and told to `report`. Threads: any may call anything. The door's own thread calls the sources and `report`. Lifetime:
// sources, registry and report outlive the door. The destructor lets answers that are being sent be taken for at most
// two seconds.
#pragma once

#include <prometheus/registry.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "doors/http/answers.hpp"
#include "doors/http/tls.hpp"

namespace icecore::server::http {

struct options {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  ///< 0: any free one
  tls_files tls = {};
  std::size_t connections_max = 64;
  std::size_t header_bytes_max = std::size_t{8} << 10;
  std::size_t output_bytes_max = std::size_t{32} << 20;
  std::chrono::milliseconds read_limit = std::chrono::seconds(30);
};

/// An event for the log: its name and what is to be told of it.
using report_function = std::function<void(std::string_view event, std::string_view detail)>;

class door {
 public:
  door(options given, sources from, prometheus::Registry& registry, report_function report);
  door(const door&) = delete;
  door& operator=(const door&) = delete;
  ~door();

  /// HOST:PORT where it listens.
  [[nodiscard]] std::string address() const;

  /// Reads the files of TLS anew, for connections that come from now on. Throws errc::bad_input and goes on with what
  /// it has if they are wrong. Does nothing without TLS.
  void reload_tls();

 private:
  class state;
  std::unique_ptr<state> state_;
};

}  // namespace icecore::server::http
