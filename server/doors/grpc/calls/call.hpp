// What all calls of the door share, and their lives on gRPC's completion queues.
//
// A call's object is made before its client comes: it waits on a completion queue. Then, each an event of the queue:
//
//   headers came -> who is it? -> message came -> the handler -> ... -> finish() -> all events have come -> deleted
//
// A message is read after the user is known, so who is not let in sends none; and it has `limits.read_limit` to arrive.
// What is written has `stalled_limit` to be passed on: then the call is cut, a unary one as well as a stream.
// Order in every handler: which database, may they do this with these keys, then values.
// `events_` counts what gRPC still has to tell the object: that the status is sent, that the call is over, and the
// reads and writes that are under way. The last one deletes the object. So an object is there as long as an event can
// come, and a task may use it until the task calls finish(), or while it holds an event itself (keep()). After a
// handler has handed a call to somebody else (a completion, an executor), it does not touch it any more: it may have
// ended already. Threads: one at a time uses a call, but the events, which come on the queue's one thread.
// Callers without a user (log-ins, health, reflection) take from `limits.strangers_bytes`, never from what users share.
#pragma once

#include <google/protobuf/message_lite.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "doors/grpc/connection_users.hpp"
#include "doors/grpc/door.hpp"
#include "doors/grpc/status.hpp"
#include "service/executor.hpp"

namespace icecore::doors {

/// Larger messages gRPC cannot send; a little is left for what stands beside the bytes.
inline constexpr std::size_t message_bytes_max = std::size_t{std::numeric_limits<std::int32_t>::max()} - 65'536;

/// A stream that the door ends when it stops, since it would not end by itself.
class open_stream {
 public:
  open_stream() = default;
  open_stream(const open_stream&) = delete;
  open_stream& operator=(const open_stream&) = delete;
  virtual ~open_stream() = default;
  /// Called under the lock of the list that holds it, so it must not end the call itself: it has it ended by another
  /// thread.
  virtual void end(const service::failure& why) = 0;
};

class grpc_call;

/// Calls that wait for their clients: the one that waits longest comes first. Threads: any number. Cost: O(1).
/// A call in the list waits for an event of gRPC, and leaves the list before it has had that event: so it is there.
class waiting_calls {
 public:
  struct entry {
    explicit entry(grpc_call& waits) : of(&waits) {}
    grpc_call* of;
    // Under the lock of the list.
    bool listed = false;
    std::chrono::steady_clock::time_point since{};
    entry* previous = nullptr;
    entry* next = nullptr;
  };
  void add(entry& which);
  /// False if it was taken out meanwhile.
  [[nodiscard]] bool remove(entry& which);
  /// Takes out one that has waited since `before`. It is the caller's to release().
  [[nodiscard]] grpc_call* take_late(std::chrono::steady_clock::time_point before);

 private:
  void unlink(entry& which);
  std::mutex mutex_;
  entry* first_ = nullptr;
  entry* last_ = nullptr;
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
  service::executor accounts;  ///< what only administrators do, and passwords that are set
  service::executor log_ins;   ///< 100 ms of a core each
  service::executor limits;    ///< looks at who waits too long: nothing else, so that it is never late
  service::gauge log_ins_at_once;

  connection_users users_of_connections;
  std::atomic<bool> stopping{false};
  // Relaxed: only shown.
  std::atomic<std::uint64_t> unread{0};  ///< calls refused by `limits.read_limit`
  std::atomic<std::uint64_t> cut{0};     ///< calls cut by `stalled_limit`
  waiting_calls reading;                 ///< until the message comes
  waiting_calls sending;                 ///< until gRPC has passed on what was written, or the status

  void opened();
  void closed();
  void wait_until_all_closed();
  void add(open_stream& stream);
  void remove(open_stream& stream);
  void end_streams(const service::failure& why);
  /// Refuses those whose message was waited for since `before`.
  void refuse_unread(std::chrono::steady_clock::time_point before);
  /// Cancels those whose client has not read since `before`.
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

/// A service whose methods all come as streams of bytes. So gRPC hands over a call when its headers are there; what a
/// message is, the call decides.
class byte_service final : public grpc::Service {
 public:
  /// `name`: "icecore.v1.Store", of a service that this program has messages of.
  explicit byte_service(const std::string& name);
  using stream = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;
  struct method {
    byte_service* of;
    int index;
    const char* name;  ///< "Store.Get"
  };
  [[nodiscard]] method find(std::string_view wanted);
  void ask(int index, grpc::ServerContext& context, stream& by, grpc::ServerCompletionQueue& queue, void* tag) {
    RequestAsyncBidiStreaming(index, &context, &by, &queue, &queue, tag);
  }

 private:
  struct names {
    std::string path;    ///< "/icecore.v1.Store/Get"
    std::string short_;  ///< "Store.Get"
  };
  std::vector<std::unique_ptr<names>> methods_;
};

/// Makes the status of a call that ends so; not called if it has ended otherwise.
using status_maker = std::function<grpc::Status()>;

/// A client's call: who calls, what it holds, when it began.
class grpc_call {
 public:
  grpc_call(door_parts& door, const byte_service::method& method, grpc::ServerCompletionQueue& queue);
  grpc_call(const grpc_call&) = delete;
  grpc_call& operator=(const grpc_call&) = delete;

  /// More bytes in flight, until the call ends. errc::limit_reached. Not of a call that anybody may make: such a one
  /// holds all that it may need from its beginning.
  void hold(std::size_t bytes) { held_.take_more(door_.all.in_flight_bytes(), bytes); }
  /// What is held already, until the call ends or holds something else so.
  void hold(service::gauge::share bytes) { answer_ = std::move(bytes); }

  [[nodiscard]] const service::principal& who() const { return *who_; }
  /// For a call that lasts: who it is now, if the user's rights have changed. errc::unauthenticated.
  void renew_user();
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
  /// Makes another call of the same method, which waits for the next client.
  virtual void again() = 0;
  /// Whether only a user may call this.
  [[nodiscard]] virtual bool needs_user() const { return true; }
  /// Ends a call whose message is refused. After the first message_came() it may come beside cancelled().
  virtual void refuse(const status_maker& status) { finish(status()); }
  /// The client is let in. Else the call has ended with the error.
  virtual void came() { read(true); }
  /// The message that read() asked for; not `well`: there is none any more.
  virtual void message_came(bool well) = 0;
  /// write()'s message is with gRPC; not `taken`: the client is gone.
  virtual void was_written(bool /*taken*/) {}
  /// The client has cancelled, its deadline has passed, or its connection is gone; after the first message_came().
  virtual void cancelled() {}
  /// All is over; the object is deleted next.
  virtual void over() {}

  // For the kinds of calls:
  [[nodiscard]] const byte_service::method& method() const noexcept { return method_; }
  [[nodiscard]] grpc::ServerCompletionQueue& queue() const noexcept { return queue_; }
  /// `limited`: it has `limits.read_limit` to arrive; then the call is refused.
  void read(bool limited);
  /// False if the bytes that came are no such message.
  [[nodiscard]] bool decode(google::protobuf::MessageLite& into);
  void write(const google::protobuf::MessageLite& message);
  void send_headers();
  void finish(const grpc::Status& status);
  void finish(const grpc::Status& status, const google::protobuf::MessageLite& message);
  /// One more event will come, or somebody else uses the object; only while another event is still to come.
  void keep() noexcept { events_.fetch_add(1, std::memory_order_relaxed); }
  /// An event has come. May delete the object.
  void release();

  /// The status that ends the call; notes it for the report.
  [[nodiscard]] grpc::Status ended_well();
  [[nodiscard]] grpc::Status ended_by(const service::failure& why);
  /// The same for a status that no error of ours has.
  [[nodiscard]] grpc::Status ended_as(grpc::Status status);

 private:
  friend class waiting_calls;
  friend struct door_parts;
  void headers_came(bool well);
  void admit();
  void recognise();
  void bytes_came(bool well);
  void written(bool taken);
  void headers_sent(bool) { release(); }
  void sent(bool taken);
  void ended(bool);
  void report() noexcept;

  door_parts& door_;
  grpc::ServerCompletionQueue& queue_;
  grpc::ServerContext context_;
  const byte_service::method method_;
  byte_service::stream stream_{&context_};
  grpc::ByteBuffer bytes_;
  std::chrono::steady_clock::time_point began_{};
  std::optional<service::principal> who_;
  service::gauge::share held_;
  service::gauge::share answer_;
  bool delivered_ = false;  ///< the status is on its way
  grpc::StatusCode status_ = grpc::StatusCode::CANCELLED;
  std::string message_;
  event_of<grpc_call> headers_came_{*this, &grpc_call::headers_came};
  event_of<grpc_call> bytes_came_{*this, &grpc_call::bytes_came};
  event_of<grpc_call> written_{*this, &grpc_call::written};
  event_of<grpc_call> headers_sent_{*this, &grpc_call::headers_sent};
  event_of<grpc_call> sent_{*this, &grpc_call::sent};
  event_of<grpc_call> ended_{*this, &grpc_call::ended};
  // Acquire and release: who deletes the object sees what all others have done with it.
  std::atomic<int> events_{2};  ///< sent_ and ended_

  bool limited_ = false;  ///< set before a read begins, for its event
  bool begun_ = false;    ///< the kind has the call; of the queue's thread alone
  waiting_calls::entry reading_{*this};
  waiting_calls::entry writing_{*this};
  waiting_calls::entry ending_{*this};
};

[[nodiscard]] service::failure cancelled_by_client();
/// Of a call whose client has ended its side before it sent the request.
[[nodiscard]] service::failure no_message();

/// A call with one request and one response.
class unary_call : public grpc_call {
 public:
  using grpc_call::grpc_call;
  void succeed() { end(ended_well()); }
  void fail(const service::failure& why) { end(ended_by(why)); }
  void fail_as(const grpc::Status& status) { end(ended_as(status)); }

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
  void end(const grpc::Status& status) {
    if (status.ok()) {
      finish(status, response());
    } else {
      finish(status);
    }
  }
  [[nodiscard]] virtual const google::protobuf::MessageLite& response() const = 0;
};

}  // namespace icecore::doors
