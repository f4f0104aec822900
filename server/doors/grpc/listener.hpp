// Accepts connections for gRPC, so that they can be counted: gRPC of this version has no limit of connections.
//
//   listener l(host, port, gauge, users, [](int socket) { hand_over(socket); });
//   l.start();  l.port();  l.stop();
//
// A connection holds one of the gauge's until its socket is closed. gRPC closes it without telling, so the listener
// remembers each socket's number and inode, and looks once a second, and when the limit is reached, which of them are
// still what they were. A number that was closed and given out again belongs to another inode.
// Over the limit a connection is closed at once, and counted as refused.
// Threads: one of its own accepts. start() and stop() belong to one thread.
// Errors: icecore::error: invalid_argument for a host that has no address, unavailable for a port that is taken.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "doors/grpc/connection_users.hpp"
#include "service/limits.hpp"

namespace icecore::doors {

class listener {
 public:
  /// `accepted` gets a socket that does not block, and owns it.
  listener(const std::string& host, std::uint16_t port, service::gauge& connections, connection_users& users,
           std::function<void(int socket)> accepted);
  ~listener();
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;

  void start();
  void stop();
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

 private:
  struct connection {
    int socket;
    ino_t inode;
    service::gauge::share held;
    std::string address;
    std::uint64_t number;
  };
  void run();
  void accept_from(int listening);
  /// Looks at all connections, unless it has done so within the interval.
  void forget_closed(std::chrono::milliseconds interval);

  service::gauge& gauge_;
  connection_users& users_;
  std::uint64_t accepted_count_ = 0;
  std::function<void(int)> accepted_;
  std::vector<int> listening_;
  std::uint16_t port_ = 0;
  int wake_ = -1;
  std::vector<connection> connections_;
  std::chrono::steady_clock::time_point looked_{};
  std::thread thread_;
};

}  // namespace icecore::doors
