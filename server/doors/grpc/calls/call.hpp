// What all calls of the door share, and their lives on gRPC's completion queues.
//
// A call's object is made before its client comes: it waits on a completion queue. Then, each an event of the queue:
//
//   headers came -> who is it? -> message came -> the handler -> ... -> finish() -> all events have come -> deleted
//
// A message is read after the user is known, so who is not let in sends none; and it has `limits.read_limit` to arrive.
// Order in every handler: which database, may they do this with these keys, then values.
// `events_` counts what gRPC still has to tell the object: that the status is sent, that the call is over, and the
// reads and writes that are under way. The last one deletes the object. So an object is there as long as an event can
// come, and a task may use it until the task calls finish(), or while it holds an event itself (keep()). After a
// handler has handed a call to somebody else (a completion, an executor), it does not touch it any more: it may have
// ended already. Threads: one at a time uses a call, but the events, which come on the queue's one thread.
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

class grpc_call;

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

  connection_users users_of_connections;
  std::atomic<bool> stopping{false};
  std::atomic<std::uint64_t> unread{0};  ///< calls refused by `limits.read_limit`; relaxed: only shown

  void opened();
  void closed();
  void wait_until_all_closed();
  void add(open_stream& stream);
  void remove(open_stream& stream);
  void end_streams(const service::failure& why);
  void cut_stalled(std::chrono::steady_clock::time_point before);

  /// A call waits for its message, and does not any more: false if it was refused meanwhile.
  void begin_reading(grpc_call& reading);
  [[nodiscard]] bool end_reading(grpc_call& reading);
  /// Refuses those whose message was waited for since `before`.
  void refuse_unread(std::chrono::steady_clock::time_point before);

 private:
  std::mutex mutex_;
  std::condition_variable none_left_;
  std::uint64_t calls_ = 0;
  std::unordered_set<open_stream*> streams_;

  std::mutex reading_mutex_;
  grpc_call* first_reading_ = nullptr;  ///< a list, linked both ways, the one that waits longest first
  grpc_call* last_reading_ = nullptr;
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

/// A client's call: who calls, what it holds, when it began.
class grpc_call {
 public:
  grpc_call(door_parts& door, const byte_service::method& method, grpc::ServerCompletionQueue& queue);
  grpc_call(const grpc_call&) = delete;
  grpc_call& operator=(const grpc_call&) = delete;

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
  /// Makes another call of the same method, which waits for the next client.
  virtual void again() = 0;
  /// Whether only a user may call this.
  [[nodiscard]] virtual bool needs_user() const { return true; }
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
  void finish(const grpc::Status& status) { stream_.Finish(status, sent_.tag()); }
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
  friend struct door_parts;  // its list of those that read
  void headers_came(bool well);
  void admit();
  void bytes_came(bool well);
  void written(bool taken);
  void headers_sent(bool) { release(); }
  void sent(bool) { release(); }
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
  std::vector<service::gauge::share> held_;
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

  // Of the list of those whose message is waited for, under its lock.
  bool listed_ = false;
  bool limited_ = false;  ///< of the queue's thread alone
  bool begun_ = false;    ///< the kind has the call; of the queue's thread alone
  std::chrono::steady_clock::time_point reading_since_{};
  grpc_call* previous_ = nullptr;
  grpc_call* next_ = nullptr;
};

[[nodiscard]] service::failure cancelled_by_client();

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
