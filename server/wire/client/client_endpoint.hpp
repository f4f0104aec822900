// A connection to a server: requests out, answers back, many under way at a time.
//
//   client_endpoint server({.address = {"node7", 4711}, .token = job_token});
//   answer got = server.call(operation, database, std::move(payload), in_two_seconds);             // waits
//   server.start(operation, database, std::move(other), [](answer&& got) { ... }, in_two_seconds);  // does not
//
// Threads: any number may use one endpoint. Whoever waits for an answer *drives* the connection meanwhile: it polls UCX
// itself, so that a synchronous call costs no switch of threads. Others that wait at the same time sleep until their
// answer is there or the driver leaves. A thread of the endpoint drives when nobody waits and answers are due, those of
// requests that a caller has given up on among them: a server cuts who stops in the middle of a request or an answer.
// It always watches the control socket, so that a killed server is noticed at once. Completions run on whichever thread
// drives.
//
// Invariants:
//  1. UCX and all members below `mutex_` are touched under it. The driver gives it away between two polls to those who
//     want it (`wanting_`), and while it sleeps or runs completions.
//  2. At most one thread drives (`driven_`, and `driver_` says which).
//  3. Every request that was started is completed exactly once: by its last answer, its deadline, or the connection's
//  end.
//  4. A request whose deadline has passed keeps its number and its credit until the server answers it, so the server's
//     counts are never above this side's, and no later request is mistaken for it.
//
// Not usable in a child process after fork: connect there anew. Errors: the constructor throws wire::failure; later
// ones are told with answers. Cost: a call is one message each way; payloads of more than 8,000 bytes go in pieces.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "wire/client/answer.hpp"
#include "wire/format/frame.hpp"
#include "wire/format/frame_input.hpp"
#include "wire/format/handshake.hpp"
#include "wire/transport/control_socket.hpp"
#include "wire/transport/frame_output.hpp"
#include "wire/transport/polling.hpp"
#include "wire/transport/ucx.hpp"

namespace icecore::wire {

struct client_settings {
  socket_address address{};
  std::string token{};  ///< of the job, as the server has it
  std::string user{};   ///< for the service's admission
  std::string secret{};
  std::string group{};  ///< which group of servers the program believes it speaks to; empty: it will be told
  std::string name{};   ///< for the server's log
  ucx_options ucx{};
  std::chrono::milliseconds connect_limit{5000};
  std::chrono::microseconds spin{100};        ///< how long a driver polls in vain before it sleeps
  bool background_progress = true;            ///< false: completions run only while a thread calls or waits
  std::uint32_t answer_bytes_max = 1U << 30;  ///< of one part; a server that sends longer ones is not listened to
  /// Frames that the server sends unasked (operation, status, payload); as completions run.
  std::function<void(std::uint16_t, std::uint16_t, byte_buffer&&)> on_unasked{};
};

class client_endpoint {
 public:
  explicit client_endpoint(client_settings settings);
  /// Ends the connection at once: what is under way completes as broken.
  ~client_endpoint();
  client_endpoint(const client_endpoint&) = delete;
  client_endpoint& operator=(const client_endpoint&) = delete;

  /// What the server told about itself and its limits.
  [[nodiscard]] const welcome& told() const noexcept { return told_; }
  /// none: connected. Otherwise why not any more.
  [[nodiscard]] close_reason ended() const noexcept { return ended_.load(std::memory_order_acquire); }

  /// Sends and waits; the parts of the answer come as one payload.
  [[nodiscard]] answer call(std::uint16_t operation, std::uint32_t database, byte_buffer payload, steady_time deadline);
  /// Sends; `done` gets the answer. Waits for room if as much is under way as the server allows, except when called by
  /// a completion, which then gets not_sent.
  void start(std::uint16_t operation, std::uint32_t database, byte_buffer payload, completion done,
             steady_time deadline);
  [[nodiscard]] std::future<answer> send(std::uint16_t operation, std::uint32_t database, byte_buffer payload,
                                         steady_time deadline);
  /// Drives until `holds`, which a completion makes true, as call() does until its answer is there: who waits for what
  /// start() began saves the switches to another thread. False: the deadline or the connection's end came first; a
  /// completion may still run after the end. `holds` is asked often, by this thread alone.
  bool wait(const std::function<bool()>& holds, steady_time deadline);
  /// Polls once, for callers that have something else to do in between.
  void progress();
  /// Waits until nothing is under way. False: the deadline came first.
  bool drain(steady_time deadline);
  /// Starts nothing more, waits for what is under way as long as `limit`, says goodbye.
  void close(std::chrono::milliseconds limit);

 private:
  struct slot;
  struct finished {
    completion done;
    answer what;
  };
  using lock = std::unique_lock<std::mutex>;

  static ucs_status_t on_message(void* self, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t bytes, const ucp_am_recv_param_t* how);
  static void on_sent(void* request, ucs_status_t status, void* self);
  static void on_endpoint_error(void* self, ucp_ep_h endpoint, ucs_status_t status);

  [[nodiscard]] lock enter();
  [[nodiscard]] slot* begin(lock& held, std::uint16_t operation, std::uint32_t database, byte_buffer&& payload,
                            completion& done, steady_time deadline);
  [[nodiscard]] bool transmit(const slot& of, std::uint16_t operation, std::uint32_t database, byte_buffer&& payload);
  bool send_waiting();
  template <class Condition>
  bool wait_for(lock& held, const Condition& holds, steady_time deadline);
  template <class Condition>
  void drive(lock& held, const Condition& holds, steady_time deadline);
  void sleep(lock& held, steady_time deadline);
  void let_others_in(lock& held);
  void run_finished(lock& held);
  void background();
  void tick(steady_time now);
  [[nodiscard]] bool something_due() const noexcept {
    return ended() == close_reason::none && (completions_due_ > 0 || abandoned_ > 0 || settings_.on_unasked);
  }

  void take_message(std::span<const std::byte> said, std::span<const std::byte> payload);
  void take_part(const frame_header& header, byte_buffer payload);
  void take_answer(slot& of, const frame_header& header, byte_buffer payload);
  void complete(slot& of, answer&& what);
  void abandon(slot& which);
  void release(slot& which);
  [[nodiscard]] slot* find(std::uint32_t request);
  void read_control();
  void note_loss(close_reason reason) noexcept;
  void end_connection(close_reason reason);

  client_settings settings_;
  frame_output output_;  // outlives the worker, which reads it; under mutex_
  ucx_worker worker_;
  control_socket socket_;
  welcome told_;
  wake_up wake_driver_;
  wake_up wake_background_;
  std::atomic<close_reason> ended_{close_reason::none};  // release with everything completed, acquire by who asks why
  std::atomic<unsigned> wanting_{0};                     // relaxed: a hint to the driver; the mutex orders

  std::mutex mutex_;
  std::condition_variable changed_;  // a slot is done, the seat of the driver is free, or the connection has ended
  ucp_ep_h endpoint_ = nullptr;
  bool driven_ = false;
  std::thread::id driver_;
  bool sleeping_ = false;
  core_use core_{};        ///< whether polling is worth it
  unsigned waiting_ = 0;   // threads in changed_
  bool refusing_ = false;  // the server stops, or close() was called: nothing new is sent
  bool server_stops_ = false;
  bool stop_background_ = false;
  close_reason loss_ = close_reason::none;  // noted by a callback; the driver ends the connection
  std::deque<slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::uint64_t bytes_under_way_ = 0;
  std::size_t under_way_ = 0;        // slots that are not free
  std::size_t completions_due_ = 0;  // of these, with a completion that has not run
  std::size_t abandoned_ = 0;        // of these, that nobody waits for
  std::vector<finished> finished_;
  frame_input input_;
  steady_time last_tick_{};
  std::thread thread_;
};

}  // namespace icecore::wire
