// A UCX worker and its endpoints, as little of UCX as the wire needs: active messages, and sleeping until one comes.
//
//   ucx_worker worker({.way = transport::automatic});
//   ucp_ep_h peer = worker.make_endpoint(address_of_the_peer, on_error, this);
//   while (!done) worker.progress();
//
// The transports are chosen here. Shared memory runs without the kernel's copying between processes (CMA): it is slower
// for 128 KiB on what was measured, and would let a peer read this process's memory. Its lanes are told to bear peers
// that vanish (MM_ERROR_HANDLING), without which an endpoint to a killed process could never be given back; that a
// process has died is then known from its control socket.
//
// Threads: one at a time, the caller sees to it. Errors: wire::failure from what makes things, with UCX's reason. What
// UCX has to say beyond that, it would print; it is silenced unless UCX_LOG_LEVEL is set.
#pragma once

#include <ucp/api/ucp.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace icecore::wire {

enum class transport : std::uint8_t {
  automatic,      ///< shared memory on one machine, else the fastest device
  shared_memory,  ///< nothing else: peers elsewhere cannot connect
  tcp,            ///< nothing else, on one machine too
};

struct ucx_options {
  transport way = transport::automatic;
  /// Which network devices UCX uses, in its own words ("eth0", "mlx5_0:1"); empty: as UCX_NET_DEVICES says, or all.
  std::string network_devices{};
};

/// The number of the active message that carries frames.
inline constexpr unsigned frame_message = 1;

class ucx_worker {
 public:
  explicit ucx_worker(const ucx_options& options);
  ~ucx_worker();
  ucx_worker(const ucx_worker&) = delete;
  ucx_worker& operator=(const ucx_worker&) = delete;

  [[nodiscard]] ucp_worker_h handle() const noexcept { return worker_; }
  [[nodiscard]] const std::vector<std::byte>& address() const noexcept { return address_; }

  /// Frames go to `receive` from here on.
  void receive_with(ucp_am_recv_callback_t receive, void* argument);

  /// Null and `why` for an address that UCX cannot reach.
  [[nodiscard]] ucp_ep_h make_endpoint(std::span<const std::byte> peer, ucp_err_handler_cb_t on_error, void* argument,
                                       std::string& why) noexcept;

  /// Whether an endpoint leads to its peer, which may take round trips, and the peer's progress. Null: it does.
  /// Otherwise a request for reached(), unless UCX refuses at once, which reached() tells, too.
  [[nodiscard]] void* reach(ucp_ep_h endpoint) noexcept;
  /// What has become of such a request; UCS_INPROGRESS: nothing yet. It is released otherwise.
  [[nodiscard]] static ucs_status_t reached(void* request) noexcept;

  /// Whether an endpoint's messages go over TCP. Cost: microseconds; UCX writes a text.
  [[nodiscard]] static bool over_tcp(ucp_ep_h endpoint);

  /// How many things happened.
  unsigned progress() noexcept { return ucp_worker_progress(worker_); }

  /// Readable when progress() may have something to do, once arm() has said yes.
  [[nodiscard]] int event_descriptor() const noexcept { return event_descriptor_; }
  /// False: there is something to do already.
  [[nodiscard]] bool arm() noexcept { return ucp_worker_arm(worker_) == UCS_OK; }

  /// Closes an endpoint, at once or when all that was sent has been handed over; null if it is closed already,
  /// otherwise a request that wants progress until closed() says yes.
  [[nodiscard]] void* close_endpoint(ucp_ep_h endpoint, bool at_once) noexcept;
  /// Whether such a request is complete; it is released then.
  [[nodiscard]] static bool closed(void* request) noexcept;
  /// Closes it at once, and waits for that at most a second: longer only broken ones take.
  void end_endpoint(ucp_ep_h endpoint) noexcept;

 private:
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_descriptor_ = -1;
  std::vector<std::byte> address_;
};

}  // namespace icecore::wire
