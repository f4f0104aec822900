// Frames on their way out of an endpoint, in the order in which they were added; long ones in pieces.
//
//   output.push(header, std::move(payload));
//   output.advance(endpoint, how);   // and again, outside of UCX's callbacks, while can_go()
//
// Invariants:
//  1. UCX has at most one message of an endpoint that it did not take at once; the others wait here, where they are
//     counted. When an endpoint is closed by force, all but that one can be given up at once.
//  2. Messages are sent eagerly, never by rendezvous. UCX 1.13 does not purge the rendezvous of an endpoint that is
//     closed by force while the peer's queue over shared memory is full, which is how it stays when a peer has stopped
//     or died: what such a message held would be held until the end. It may also take a function that an earlier use
//     of its memory left behind for that message's callback (ucp_request_send_state_ff). An eager message is given
//     back with the close.
//  3. What waits is not sent by the callback that says that UCX has taken a message: over TCP, UCX 1.13 calls it while
//     it walks the list that such a message would be added to, and aborts (arbiter.c, guard). taken() only notes it.
//
// Lifetime: until UCX has called back or the endpoint's worker is gone, the message under way is read by UCX: its owner
// lives so long, and drop_waiting() keeps it; but the pages of memory of the frame's other pieces go to the kernel,
// since over TCP a peer that has stopped makes this last until it dies. Threads: one at a time. Cost: nothing is copied
// here; UCX copies each byte once.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <utility>

#include "wire/format/frame.hpp"
#include "wire/format/frame_payload.hpp"

namespace icecore::wire {

class frame_output {
 public:
  /// How UCX is told to call back, and what else it is told.
  struct how_to_send {
    ucp_send_nbx_callback_t taken = nullptr;
    void* argument = nullptr;
    unsigned flags = 0;
  };
  static constexpr std::size_t all = std::numeric_limits<std::size_t>::max();

  frame_output() = default;
  frame_output(const frame_output&) = delete;
  frame_output& operator=(const frame_output&) = delete;

  void push(const frame_header& header, frame_payload payload);

  /// Hands messages to UCX until it does not take one at once, or at least `most` bytes have gone.
  /// UCS_OK: none is left. UCS_INPROGRESS: UCX has one. UCS_ERR_NO_RESOURCE: `most` bytes have gone, and more waits.
  /// Otherwise UCX's error.
  [[nodiscard]] ucs_status_t advance(ucp_ep_h endpoint, const how_to_send& how, std::size_t most = all);
  /// UCX has taken the message that it had.
  void taken();
  /// Something waits for advance().
  [[nodiscard]] bool can_go() const noexcept { return !under_way_ && bytes_ > 0; }
  /// UCX has a message.
  [[nodiscard]] bool under_way() const noexcept { return under_way_; }

  /// What all frames take that are not gone as a whole, payloads and the rest.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

  /// Gives up all that UCX does not have.
  void drop_waiting();

 private:
  struct frame {
    frame_header header;  // UCX reads it until a message is sent
    frame_payload payload;
    std::size_t sent = 0;
    std::size_t sending = 0;
  };

  [[nodiscard]] static std::size_t cost_of(const frame& one) noexcept;
  void gone();

  std::deque<frame> frames_;  // whose places in memory stay when others are added
  std::uint64_t bytes_ = 0;
  bool under_way_ = false;
};

}  // namespace icecore::wire
