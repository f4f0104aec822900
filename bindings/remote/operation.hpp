// One request under way: what a pending result refers to.
//
//   auto insert = std::make_shared<operation>(database, part, put_request::number, payload, true, deadline);
//   insert->begin();
//   wire::answer got = insert->wait();
//
// The completion that the endpoint calls owns the slot and nothing else: it runs on a thread of the endpoint, and if it
// released the last reference to the session, the endpoint would wait for its own thread.
//
// Threads: one at a time; the completion comes from any. Errors: as session::call. Cost: a copy of the payload, kept
// for a repetition.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "session.hpp"

namespace icecore::remote::detail {

/// Where the answer is put.
class slot {
 public:
  explicit slot(std::function<void()> on_done) : on_done_(std::move(on_done)) {}
  void put(wire::answer&& got);
  /// Release with the answer, acquire here: who sees true sees the answer.
  [[nodiscard]] bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// False: the time came first.
  [[nodiscard]] bool wait_until(steady_time time);
  [[nodiscard]] wire::answer& answer() noexcept { return answer_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> done_{false};
  const std::function<void()> on_done_;
  wire::answer answer_;
};

/// The connection that a request went over, and the database's handle on it. The numbers of rows and watches are bound
/// to their connection: on another one, the same number is something else.
struct sent_over {
  std::weak_ptr<wire::client_endpoint> endpoint;
  std::uint32_t handle = 0;
};

class [[gnu::visibility("hidden")]] operation {
 public:
  operation(std::shared_ptr<database> of, std::size_t part, operation_number number, wire::byte_buffer payload,
            bool repeatable, steady_time deadline);

  /// Before begin(): sends it over this connection or not at all; if that breaks, or the server lets go of the request,
  /// wait() throws errc::unavailable.
  void bind(const sent_over& connection) {
    sent_over_ = connection;
    bound_ = true;
  }
  /// Before begin(): called, by any thread, when test() may have more to say. It must not own the session.
  void on_done(std::function<void()> call) { on_done_ = std::move(call); }
  [[nodiscard]] const sent_over& connection() const noexcept { return sent_over_; }
  /// Sends it. What goes wrong is told by wait().
  void begin();
  /// The server's answer, whatever its status. Throws as session::call.
  [[nodiscard]] wire::answer wait();
  [[nodiscard]] bool wait_for(std::chrono::milliseconds limit);
  [[nodiscard]] bool test();
  void cancel() noexcept { cancelled_ = true; }
  [[nodiscard]] const std::string& server() const { return (to_ != nullptr ? *to_ : of_->all->link_of(part_)).name(); }

 private:
  /// Whether the result is final: an answer, or a failure that wait() throws. May begin the operation anew.
  [[nodiscard]] bool settled();
  /// Otherwise wait() throws what is wrong.
  [[nodiscard]] bool is_short_for(const wire::client_endpoint& endpoint);

  std::shared_ptr<database> of_;
  std::size_t part_;
  link* to_ = nullptr;  // whom begin() has chosen; links live as long as the session
  operation_number number_;
  wire::byte_buffer payload_;
  bool repeatable_;
  bool cancelled_ = false;
  bool taken_ = false;
  unsigned attempt_ = 0;
  steady_time deadline_;
  std::function<void()> on_done_;
  std::shared_ptr<slot> slot_;
  sent_over sent_over_;
  bool bound_ = false;
  std::exception_ptr failed_;
};

}  // namespace icecore::remote::detail
