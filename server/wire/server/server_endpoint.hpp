// Where clients connect: listens, keeps connections, hands requests to a service.
//
//   echo service;
//   server_endpoint server({.listen = {"127.0.0.1", 0}, .token = job_token}, service);
//   tell_clients(server.address());
//   ...
//   server.stop(std::chrono::seconds(5));
//
// Threads: settings.io_threads and one that accepts, all of its own. Functions may be called by any thread; stop()
// waits. Errors: the constructor throws wire::failure. Lifetime: the service outlives the endpoint; requests that it
// still holds may be answered later, to no effect.
//
// What a peer can do that knows the token: much. UCX is given its worker's address and its messages, and is not
// hardened against them. The token keeps strangers away from all of that; the network should, too (docs of the server).
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "wire/server/acceptor.hpp"
#include "wire/server/connection.hpp"
#include "wire/server/io_thread.hpp"
#include "wire/server/server_state.hpp"
#include "wire/server/settings.hpp"

namespace icecore::wire {

class server_endpoint {
 public:
  server_endpoint(server_settings settings, frame_handler& service);
  /// Stops within a second.
  ~server_endpoint();
  server_endpoint(const server_endpoint&) = delete;
  server_endpoint& operator=(const server_endpoint&) = delete;

  /// Where it listens; the port is a real one.
  [[nodiscard]] const socket_address& address() const noexcept { return address_; }
  [[nodiscard]] const server_counters& counters() const noexcept { return shared_->counters; }

  /// Accepts nobody more, tells clients to leave, answers what they have asked already, and cuts whoever is still there
  /// after `limit`. Later calls return when the first one has.
  void stop(std::chrono::milliseconds limit);

 private:
  socket_address address_;
  std::shared_ptr<server_state> shared_;
  std::vector<std::shared_ptr<io_thread>> io_threads_;
  std::unique_ptr<acceptor> acceptor_;
  std::mutex stop_mutex_;
  bool stopped_ = false;
};

}  // namespace icecore::wire
