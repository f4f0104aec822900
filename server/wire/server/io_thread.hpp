// One I/O thread of a server endpoint: a UCX worker, the connections that use it, and the thread that drives both.
//
// The thread polls its worker; when nothing happened for settings.spin it sleeps until the worker's descriptor, a
// control socket or another thread wakes it.
//
// Invariants:
//  1. UCX, connections and their counts are touched by this thread alone. Other threads put what they want into the
//  inbox.
//  2. A wake-up is never lost. Who posts: writes the inbox, then reads `sleeping_`. The thread: writes `sleeping_`,
//  then
//     reads the inbox, then sleeps. Both pairs are sequentially consistent, so at least one sees the other's write; the
//     eventfd keeps a ring that comes before the sleep.
//  3. No connection is ended inside a UCX callback: callbacks note the reason in `closing`, the loop ends it.
//  4. A request is counted in requests_in_flight from when it is taken until its last answer was handed to UCX, or its
//     connection has ended.
//  5. A client is told `ready` when the endpoint to it is connected, and sends no frame before. So UCX never waits for
//  a
//     connection with its own wiring up, which begins with a client's first frame: UCX 1.13 aborts the process when
//     that meets a reset, or a connection of the other side (format/handshake.hpp).
//  6. When a connection has ended, nothing is charged for it, and UCX has at most one message of it, which its close
//     gives back; of a long frame, no other piece stays in memory (transport/frame_output.hpp).
//  7. Over TCP, the endpoint of an ended connection is closed only when UCX has given that message back, which is when
//     the peer reads on, closes its socket, or dies; until then it keeps its place among `connections_max`. UCX 1.13
//     (and later) frees an endpoint that is closed and has more to send when the peer's message of its own closing
//     comes, and then goes on to send with it (tcp_iface.c, uct_tcp_iface_handle_events): the process crashes.
//  8. `finished_` is set under the inbox's mutex, so what is posted is either taken by the thread or dropped.
//
// Lifetime: shared by the endpoint, the connections and whoever still holds a request of theirs. After join() nothing
// runs, and a late answer does no harm.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "wire/server/io_connection.hpp"
#include "wire/server/server_state.hpp"

namespace icecore::wire {

class io_thread : public std::enable_shared_from_this<io_thread> {
 public:
  explicit io_thread(std::shared_ptr<server_state> shared);
  ~io_thread();
  io_thread(const io_thread&) = delete;
  io_thread& operator=(const io_thread&) = delete;

  [[nodiscard]] const std::vector<std::byte>& worker_address() const noexcept { return worker_->address(); }

  // By any thread.
  /// Opens a connection whose client has told its worker's address; the socket goes with it.
  void adopt(std::shared_ptr<io_connection> made, control_socket socket, std::vector<std::byte> client_address);
  void post_frame(std::shared_ptr<io_connection> to, const frame_header& header, frame_payload payload,
                  std::uint64_t charged);
  void post_close(std::shared_ptr<io_connection> which, close_reason reason, std::string text);
  void start();
  /// Tells all clients that the server stops. The thread then ends by itself when they have left, and cuts whoever is
  /// still there at `deadline`.
  void stop(steady_time deadline);
  void join();

 private:
  struct posted {
    enum class kind : std::uint8_t { adopt, frame, close, stop } what{};
    std::shared_ptr<io_connection> which{};
    control_socket socket{};
    std::vector<std::byte> client_address{};
    frame_header header{};
    frame_payload payload{};
    std::uint64_t charged = 0;
    close_reason reason = close_reason::none;
    std::string text{};
    steady_time deadline{};
  };

  static ucs_status_t on_message(void* self, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t bytes, const ucp_am_recv_param_t* how);
  static void on_sent(void* request, ucs_status_t status, void* connection);
  static void on_endpoint_error(void* self, ucp_ep_h endpoint, ucs_status_t status);

  [[nodiscard]] bool on_own_thread() const noexcept;
  void post(posted&& what);
  void run();
  void sleep();
  void take_posted();
  void look_at_sockets(int wait_ms);
  void look_at_clocks();
  [[nodiscard]] bool done();

  void open(posted& what);
  void look_at_opening();
  void become_ready(io_connection& made);
  void transmit(io_connection& to, const frame_header& header, frame_payload payload, std::uint64_t charged);
  void send_waiting(io_connection& to);
  void send_unfinished();
  void charge_output(io_connection& of);
  void take_message(std::span<const std::byte> header, std::span<const std::byte> payload,
                    const ucp_am_recv_param_t& how);
  void take_piece(io_connection& from, const frame_header& header, std::span<const std::byte> piece);
  [[nodiscard]] bool begin_input(io_connection& from, const frame_header& header);
  void bad_frame(ucp_ep_h from, const std::string& why);
  void deliver(request&& asked, io_connection& from);
  void deliver_parked(io_connection& from);
  [[nodiscard]] bool admit(io_connection& from, const frame_header& header);
  void refuse(io_connection& from, const frame_header& header, std::uint16_t status);
  void read_control(io_connection& from);
  void will_close(io_connection& which, close_reason reason, std::string text);
  void end(io_connection& which);
  void close_endpoint(ucp_ep_h endpoint, const std::shared_ptr<io_connection>& of);
  void look_at_draining();
  void end_those_closing();

  const std::shared_ptr<server_state> shared_;
  std::unique_ptr<ucx_worker> worker_;  // until join()
  wake_up wake_;
  descriptor sockets_;  // epoll: the worker's descriptor, wake_, control sockets

  std::mutex inbox_mutex_;
  std::vector<posted> inbox_;
  bool finished_ = false;
  std::atomic<bool> inbox_filled_{false};
  std::atomic<bool> sleeping_{false};

  std::vector<std::shared_ptr<io_connection>> places_;  // by the lower 16 bits of a handle
  std::unordered_map<ucp_ep_h, io_connection*> by_endpoint_;
  std::vector<std::shared_ptr<io_connection>> closing_;
  std::vector<std::pair<void*, std::shared_ptr<io_connection>>> opening_;  // UCX connects them
  std::vector<std::pair<void*, std::shared_ptr<io_connection>>> closing_endpoints_;
  std::vector<std::pair<ucp_ep_h, std::shared_ptr<io_connection>>> draining_;  // ended, invariant 7
  std::vector<std::shared_ptr<io_connection>> unfinished_;                     // have more to send, in their next turn
  std::size_t messages_ = 0;  // that UCX has not taken yet, of open connections
  steady_time now_{};
  bool stopping_ = false;
  steady_time stop_deadline_{};
  std::thread thread_;
};

}  // namespace icecore::wire
