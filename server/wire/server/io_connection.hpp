// A connection as its I/O thread sees it. Everything but the constant members and `ended` belongs to that thread.
//
// The life of one: made by the acceptor with the welcome; opened by the I/O thread once the client's address is there;
// ready once UCX has connected its endpoint; ended by the I/O thread, exactly once; destroyed when the last request
// that names it is gone, and UCX has closed its endpoint.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>

#include "wire/format/frame_input.hpp"
#include "wire/server/connection.hpp"
#include "wire/transport/control_socket.hpp"
#include "wire/transport/frame_output.hpp"
#include "wire/transport/ucx.hpp"

namespace icecore::wire {

class io_thread;

class io_connection final : public connection {
 public:
  io_connection(std::shared_ptr<io_thread> io, std::uint32_t handle, std::string peer, std::shared_ptr<void> session)
      : io_(std::move(io)), handle_(handle), peer_(std::move(peer)), session_(std::move(session)) {}

  [[nodiscard]] std::uint32_t handle() const noexcept override { return handle_; }
  [[nodiscard]] const std::string& peer() const noexcept override { return peer_; }
  [[nodiscard]] const std::shared_ptr<void>& session() const noexcept override { return session_; }
  [[nodiscard]] bool open() const noexcept override { return !ended.load(std::memory_order_acquire); }
  void send(std::uint16_t operation, std::uint16_t status, byte_buffer payload) override;
  void close(close_reason reason, std::string text) override;

  [[nodiscard]] io_thread& io() const noexcept { return *io_; }
  [[nodiscard]] std::shared_ptr<io_connection> shared() {
    return std::static_pointer_cast<io_connection>(shared_from_this());
  }

  // Of the I/O thread.
  control_socket socket;
  ucp_ep_h endpoint = nullptr;
  bool ready = false;  // the endpoint leads to the client, who was told so
  std::uint64_t requests_in_flight = 0;
  std::uint64_t bytes_in_flight = 0;
  frame_input input;
  steady_time input_begun{};  // when the first piece of what is under way there came
  frame_output output;
  std::uint64_t output_charged = 0;  // for what waits there
  steady_time output_moved{};        // when output last left, or began to wait
  steady_time last_frame{};
  std::deque<request> parked;                 // wait until the client has taken answers
  close_reason closing = close_reason::none;  // set: will be ended with the next round
  std::string closing_text;
  bool said_goodbye = false;

  std::atomic<bool> ended{false};  // release by the I/O thread, acquire by others: no later send is expected to arrive

 private:
  void send_part(const frame_header& header, frame_payload payload, std::uint64_t charged) override;

  const std::shared_ptr<io_thread> io_;
  const std::uint32_t handle_;
  const std::string peer_;
  const std::shared_ptr<void> session_;
};

}  // namespace icecore::wire
