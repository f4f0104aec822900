// What all calls of the door share, and the two kinds of unary handlers.
//
//   return answer_direct(door_, context, "Store.Put", *request, [=](unary_call& c) { ...; db->write(t, c.completion());
//   }); return answer_on(door_.work, door_, context, "Versions.Tag", *request, [=](unary_call& c) { ...; });
//
// Order in every handler: who is it, which database, may they do this with these keys, then values.
// A handler's object lives until gRPC has sent the answer (OnDone), and holds the request's share of the memory as
// long. After a handler has handed a call to somebody else (a completion, an executor), it does not touch it any more:
// it may have ended already. Threads: one at a time uses a call.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

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

/// A client's call: who calls, what it holds, when it began.
class call {
 public:
  call(door_parts& door, grpc::CallbackServerContext& context, const char* method);
  call(const call&) = delete;
  call& operator=(const call&) = delete;

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
  [[nodiscard]] grpc::CallbackServerContext& context() const noexcept { return context_; }
  [[nodiscard]] bool is_cancelled() const { return context_.IsCancelled(); }

 protected:
  ~call() = default;
  /// The status that ends the call; notes it for the report.
  [[nodiscard]] grpc::Status ended_well();
  [[nodiscard]] grpc::Status ended_by(const service::failure& why);
  /// Tells the observer. The last thing a call does but to delete itself.
  void report() noexcept;

 private:
  door_parts& door_;
  grpc::CallbackServerContext& context_;
  const char* method_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::optional<service::principal> who_;
  std::vector<service::gauge::share> held_;
  grpc::StatusCode status_ = grpc::StatusCode::CANCELLED;
  std::string message_;
};

[[nodiscard]] service::failure cancelled_by_client();

class unary_call final : public grpc::ServerUnaryReactor, public call {
 public:
  using call::call;
  void succeed() { Finish(ended_well()); }
  void fail(const service::failure& why) { Finish(ended_by(why)); }
  void OnDone() override;

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
};

/// The handler runs on gRPC's thread: it must not wait, and must see to it that the call ends.
template <typename Request, typename Work>
grpc::ServerUnaryReactor* answer_direct(door_parts& door, grpc::CallbackServerContext* context, const char* method,
                                        const Request& request, Work&& what) {
  auto* const made = new unary_call(door, *context, method);
  made->attempt([&](unary_call& c) {
    c.admit(request.ByteSizeLong());
    what(c);
  });
  return made;
}

/// The handler runs on a thread of `where`, and has succeeded when it returns.
template <typename Request, typename Work>
grpc::ServerUnaryReactor* answer_on(service::executor& where, door_parts& door, grpc::CallbackServerContext* context,
                                    const char* method, const Request& request, Work what) {
  auto* const made = new unary_call(door, *context, method);
  made->attempt([&](unary_call& c) {
    c.admit(request.ByteSizeLong());
    c.go_on(where, std::move(what));
  });
  return made;
}

}  // namespace icecore::doors
