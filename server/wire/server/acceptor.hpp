// The thread that listens and sees newcomers through the handshake (format/handshake.hpp) until an I/O thread takes
// them.
//
// A newcomer costs a socket and at most 4 KiB until its token was compared, and is sent away when the handshake is not
// complete in time, counted from its first byte, so that one that trickles bytes is gone as soon as one that is silent.
//
// Threads: one of its own; stop() by any other, once. Errors: the constructor throws wire::failure.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "wire/server/io_thread.hpp"
#include "wire/server/server_state.hpp"

namespace icecore::wire {

class acceptor {
 public:
  /// Listens at `at`; port 0 is replaced by the port that was free.
  acceptor(std::shared_ptr<server_state> shared, std::vector<std::shared_ptr<io_thread>> io_threads,
           socket_address& at);
  ~acceptor();
  acceptor(const acceptor&) = delete;
  acceptor& operator=(const acceptor&) = delete;

  void stop();

 private:
  struct newcomer;

  void run();
  void accept_all();
  /// False: it is done with, one way or the other.
  [[nodiscard]] bool go_on(newcomer& who);
  [[nodiscard]] bool answer_hello(newcomer& who, std::span<const std::byte> body);
  bool send_away(newcomer& who, close_reason reason, const std::string& text);

  std::shared_ptr<server_state> shared_;
  std::vector<std::shared_ptr<io_thread>> io_threads_;
  descriptor listening_;
  wake_up wake_;
  std::atomic<bool> stopping_{false};  // relaxed: the ring of wake_ orders it
  std::vector<std::unique_ptr<newcomer>> newcomers_;
  std::size_t next_io_thread_ = 0;
  std::thread thread_;
};

}  // namespace icecore::wire
