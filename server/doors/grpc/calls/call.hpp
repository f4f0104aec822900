// What all calls of the door share, and their lives on gRPC's completion queues.
//
// A call's object is made before its client comes: it waits on a completion queue (serve.hpp). Then:
//
//   waits -> arrived() -> its handler -> ... -> Finish -> all its events have come -> deleted
//
// Order in every handler: who is it, which database, may they do this with these keys, then values.
// `events_` counts what gRPC still has to tell the object: that the status is sent, that the call is over, and the
// reads and writes that are under way. The last one deletes the object. So an object is there as long as an event can
// come, and a task may use it until the task calls Finish, or while it holds an event itself (keep()). After a handler
// has handed a call to somebody else (a completion, an executor), it does not touch it any more: it may have ended
// already. Threads: one at a time uses a call, but the events, which come on the queue's thread.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_context.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "doors/grpc/door.hpp"
#include "doors/grpc/status.hpp"
#include "service/executor.hpp"

namespace icecore::doors {

/// Larger messages gRPC cannot send; a little is left for what stands beside the bytes.
inline constexpr std::size_t message_bytes_max = std::size_t{std::numeric_limits<std::int32_t>::max()} - 65'536;

/// A stream that the door may have to end. Both functions are called under the lock of the list that holds it, so they
/// must not end the call themselves: they have it ended by another thread.
class open_stream {
 public:
  open_stream() = default;
  open_stream(const open_stream&) = delete;
  open_stream& operator=(const open_stream&) = delete;
  virtual ~open_stream() = default;
  /// Ends it if it would not end by itself (a watch, for example).
  virtual void end(const service::failure& why) = 0;
  /// Cancels it if its client has not read a message since `before`.
  virtual void cut_if_stalled(std::chrono::steady_clock::time_point before) = 0;
};

/// What all calls of one door share.
struct door_parts {
  door_parts(service::service& served, const grpc_door_options& opening);

  service::service& all;
  const grpc_door_options options;
  // Handlers wait on threads of the door alone: a thread of the service that waited for the applier could be the one
  // that the applier needs.
  service::executor work;      ///< what may wait for a device for a moment
  service::executor lengthy;   ///< what takes time with the size of a database: few, so that they do not slow the rest
  service::executor accounts;  ///< log-ins (50 ms of a core each) and what only administrators do

  std::atomic<bool> stopping{false};

  void opened();
  void closed();
  void wait_until_all_closed();
  void add(open_stream& stream);
  void remove(open_stream& stream);
  void end_streams(const service::failure& why);
  void cut_stalled(std::chrono::steady_clock::time_point before);

 private:
  std::mutex mutex_;
  std::condition_variable none_left_;
  std::uint64_t calls_ = 0;
  std::unordered_set<open_stream*> streams_;
};

/// What a completion queue gives back: somebody who waits for something.
class queue_event {
 public:
  queue_event() = default;
  queue_event(const queue_event&) = delete;
  queue_event& operator=(const queue_event&) = delete;
  virtual void happened(bool well) = 0;

 protected:
  ~queue_event() = default;
};

/// An event that calls a function of its owner.
template <typename Owner>
class event_of final : public queue_event {
 public:
  using function = void (Owner::*)(bool well);
  event_of(Owner& owner, function what) : owner_(owner), what_(what) {}
  void happened(bool well) override { (owner_.*what_)(well); }
  /// As gRPC takes it.
  [[nodiscard]] void* tag() noexcept { return static_cast<queue_event*>(this); }

 private:
  Owner& owner_;
  function what_;
};

/// A client's call: who calls, what it holds, when it began.
class grpc_call {
 public:
  grpc_call(door_parts& door, grpc::ServerCompletionQueue& queue, const char* method);
  grpc_call(const grpc_call&) = delete;
  grpc_call& operator=(const grpc_call&) = delete;

  /// Refuses if the server is stopping; takes the bytes from those in flight; finds out who calls.
  void admit(std::size_t request_bytes);
  /// The same for a call that needs no user.
  void admit_anybody(std::size_t request_bytes);
  /// More bytes in flight, until the call ends. errc::limit_reached.
  void hold(std::size_t bytes);

  [[nodiscard]] const service::principal& who() const { return *who_; }
  /// errc::denied if there is no such database, or the caller may do nothing with it.
  [[nodiscard]] std::shared_ptr<service::database> find(const std::string& name) const;
  /// The same, if the caller may do this with all keys between the bounds.
  [[nodiscard]] std::shared_ptr<service::database> find(const std::string& name, const key_bounds& bounds,
                                                        service::right what) const;
  void require(const service::database_settings& settings, std::string_view key, service::right what) const;
  void require(const service::database_settings& settings, const key_bounds& bounds, service::right what) const;
  /// The bearer's token; empty if there is none.
  [[nodiscard]] std::string token() const;

  [[nodiscard]] door_parts& door() const noexcept { return door_; }
  [[nodiscard]] grpc::ServerContext& context() noexcept { return context_; }
  [[nodiscard]] bool is_cancelled() const { return context_.IsCancelled(); }

 protected:
  virtual ~grpc_call() = default;

  // What the kinds of calls do:
  /// The client has cancelled, its deadline has passed, or its connection is gone.
  virtual void cancelled() {}
  /// All is over; the object is deleted next.
  virtual void over() {}

  // For the kinds of calls:
  [[nodiscard]] grpc::ServerCompletionQueue& queue() const noexcept { return queue_; }
  /// The client has come: from now on `events_` counts.
  void begins() noexcept { began_ = std::chrono::steady_clock::now(); }
  /// No client has come, and none will.
  void will_not_begin();
  /// One more event will come, or somebody else uses the object; only while another event is still to come.
  void keep() noexcept { events_.fetch_add(1, std::memory_order_relaxed); }
  /// An event has come. May delete the object.
  void release();
  /// The event of the status that Finish sends: it comes once.
  [[nodiscard]] void* sent_tag() noexcept { return sent_.tag(); }

  /// The status that ends the call; notes it for the report.
  [[nodiscard]] grpc::Status ended_well();
  [[nodiscard]] grpc::Status ended_by(const service::failure& why);
  /// The same for a status that no error of ours has.
  [[nodiscard]] grpc::Status ended_as(grpc::Status status);

 private:
  void sent(bool) { release(); }
  void ended(bool);
  void report() noexcept;

  door_parts& door_;
  grpc::ServerCompletionQueue& queue_;
  grpc::ServerContext context_;
  const char* method_;
  std::chrono::steady_clock::time_point began_{};
  std::optional<service::principal> who_;
  std::vector<service::gauge::share> held_;
  grpc::StatusCode status_ = grpc::StatusCode::CANCELLED;
  std::string message_;
  event_of<grpc_call> sent_{*this, &grpc_call::sent};
  event_of<grpc_call> ended_{*this, &grpc_call::ended};
  // Acquire and release: who deletes the object sees what all others have done with it.
  std::atomic<int> events_{2};  ///< sent_ and ended_
};

[[nodiscard]] service::failure cancelled_by_client();

/// A call with one request and one response.
class unary_call : public grpc_call {
 public:
  using grpc_call::grpc_call;
  void succeed() { finish(ended_well()); }
  void fail(const service::failure& why) { finish(ended_by(why)); }
  void fail_as(const grpc::Status& status) { finish(ended_as(status)); }

  /// Runs `what` now; if it throws, the call ends with that error. `what` sees to it that the call ends.
  template <typename Work>
  void attempt(Work&& what) {
    try {
      what(*this);
    } catch (...) {
      fail(service::failure_of(std::current_exception()));
    }
  }
  /// Runs `what` on a thread of `where`; then the call has succeeded, or ends with the error that was thrown. A call
  /// that was cancelled meanwhile is not begun.
  template <typename Work>
  void go_on(service::executor& where, Work what) {
    where.post([this, what = std::move(what)] {
      if (is_cancelled()) return fail(cancelled_by_client());
      attempt([&](unary_call& c) {
        what(c);
        c.succeed();
      });
    });
  }

 private:
  virtual void finish(const grpc::Status& status) = 0;
};

}  // namespace icecore::doors
