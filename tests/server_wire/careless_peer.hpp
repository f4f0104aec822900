// A peer that keeps to no rule of a client endpoint.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <string>

#include "wire/client/wire_up.hpp"
#include "wire_support.hpp"

namespace icecore::wire::testing {

/// A peer that sends what a client endpoint would not, since that one keeps to the welcome.
class careless_peer {
 public:
  explicit careless_peer(const server_endpoint& server, transport way = transport::shared_memory)
      : careless_peer(server.address(), way) {}
  careless_peer(const socket_address& server, transport way)
      : worker_({.way = way, .network_devices = way == transport::tcp ? "lo" : ""}) {
    worker_.receive_with(
        [](void* self, const void*, std::size_t, void*, std::size_t, const ucp_am_recv_param_t*) {
          ++static_cast<careless_peer*>(self)->answers_;
          return UCS_OK;
        },
        this);
    wired_ = wire_up(server, hello{.token = job_token}, worker_, soon());
    std::string why;
    endpoint_ = worker_.make_endpoint(
        wired_.told.worker_address, [](void*, ucp_ep_h, ucs_status_t) {}, nullptr, why);
    send(echo, {});  // until the first answer UCX still wires up, which wants progress on both sides
    EXPECT_TRUE(wait_for_answers(1));
    answers_ = 0;
  }
  careless_peer(const careless_peer&) = delete;
  careless_peer& operator=(const careless_peer&) = delete;
  ~careless_peer() {
    void* closing = worker_.close_endpoint(endpoint_, true);
    while (!worker_.closed(closing)) worker_.progress();
  }

  void send(std::uint16_t operation, byte_buffer sent) {
    const std::size_t bytes = sent.size();
    send_pieces(operation, std::move(sent), bytes);
  }
  /// Only so many of its pieces.
  void send_pieces(std::uint16_t operation, byte_buffer sent, std::size_t bytes) {
    const byte_buffer& payload = payloads_.emplace_back(std::move(sent));
    headers_.push_back({.flags = payload.size() > piece_bytes ? flag_piece : std::uint8_t{0},
                        .operation = operation,
                        .connection = wired_.told.connection,
                        .request = requests_++,
                        .payload_bytes = static_cast<std::uint32_t>(payload.size())});
    std::size_t at = 0;
    do {
      const std::size_t piece = std::min(piece_bytes, bytes - at);
      send_message(headers_.back(), payload.data() + at, piece);
      at += piece;
    } while (at < bytes);
  }
  /// Progress until the server has said goodbye, and why.
  close_reason listen(bool takes_answers = true) {
    const auto limit = soon();
    for (byte_buffer body; std::chrono::steady_clock::now() < limit;) {
      if (takes_answers) worker_.progress();
      try {
        static_cast<void>(wired_.socket.read_record(body, in(std::chrono::milliseconds(1))));
      } catch (const failure& told) {
        if (told.reason() != close_reason::too_slow) return told.reason();
      }
    }
    return close_reason::none;
  }
  bool wait_for_answers(unsigned count) {
    const auto limit = soon();
    while (answers_ < count && std::chrono::steady_clock::now() < limit) worker_.progress();
    return answers_ >= count;
  }

 private:
  void send_message(const frame_header& header, const std::byte* payload, std::size_t bytes) {
    ucp_request_param_t how{};
    how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    how.flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER;
    static_cast<void>(ucp_am_send_nbx(endpoint_, frame_message, &header, sizeof(frame_header), payload, bytes, &how));
  }

  ucx_worker worker_;
  wired_up wired_;
  std::uint32_t requests_ = 0;
  ucp_ep_h endpoint_ = nullptr;
  std::deque<frame_header> headers_;  // UCX reads them, and the payloads, until they are sent
  std::deque<byte_buffer> payloads_;
  unsigned answers_ = 0;
};

}  // namespace icecore::wire::testing
