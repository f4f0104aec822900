// The services' methods, and how their calls come: for each method objects wait on each completion queue; the one whose
// client has come makes its successor.
//
//   class lease_calls final : public served_service {
//    public:
//     explicit lease_calls(door_parts& door) : served_service(door, "icecore.v1.Leases") {}
//     void wait_on(grpc::ServerCompletionQueue& queue) override {
//       wait_for_unary(*this, queue, "Grant", &lease_calls::grant);
//       wait_for<lease_keeper>(queue, "KeepAlive");
//     }
//     void grant(unary_call& its, const v1::GrantRequest* request, v1::Lease* response) {
//       answer_on(door_.work, its, *request, [=](unary_call& c) { ... });
//     }
//   };
//
// Lifetime: the service outlives its server. What waits ends when the server shuts down. Threads: the queues'.
#pragma once

#include <string>
#include <utility>

#include "doors/grpc/calls/call.hpp"

namespace icecore::doors {

/// So many calls of a unary method find an object that waits, before the queue's thread has made more.
inline constexpr int waiting_at_once = 4;

/// Who may call a method.
enum class callers : std::uint8_t { users, anybody };

inline const grpc::Status undecodable(grpc::StatusCode::INTERNAL, "the request's bytes are no message of this method");

// ---- One request, one response ----

template <typename Handlers, typename Request, typename Response>
class waiting_unary final : public unary_call {
 public:
  using handler = void (Handlers::*)(unary_call&, const Request*, Response*);
  waiting_unary(Handlers& handlers, handler handle, callers who, const byte_service::method& method,
                grpc::ServerCompletionQueue& queue)
      : unary_call(handlers.door(), method, queue), handlers_(handlers), handle_(handle), callers_(who) {}

 protected:
  void again() override { new waiting_unary(handlers_, handle_, callers_, method(), queue()); }  // gRPC holds it
  [[nodiscard]] bool needs_user() const override { return callers_ == callers::users; }
  void message_came(bool well) override {
    if (!well) return fail(no_message());
    if (!decode(request_)) return fail_as(undecodable);
    (handlers_.*handle_)(*this, &request_, &response_);
  }
  [[nodiscard]] const google::protobuf::MessageLite& response() const override { return response_; }

 private:
  Handlers& handlers_;
  const handler handle_;
  const callers callers_;
  Request request_;
  Response response_;
};

/// The handler runs on the queue's thread: it must not wait, and must see to it that the call ends.
template <typename Request, typename Work>
void answer_direct(unary_call& call, const Request& request, Work&& what) {
  call.attempt([&](unary_call& c) {
    c.hold(request.ByteSizeLong());
    what(c);
  });
}

/// The handler runs on a thread of `where`, and has succeeded when it returns.
template <typename Request, typename Work>
void answer_on(service::executor& where, unary_call& call, const Request& request, Work what) {
  call.attempt([&](unary_call& c) {
    c.hold(request.ByteSizeLong());
    c.go_on(where, std::move(what));
  });
}

// ---- Streams. `Kind` is their class ----

/// Answers to one request.
template <typename Handlers, typename Request, typename Kind>
class waiting_answers final : public Kind {
 public:
  using handler = void (Handlers::*)(Kind&, const Request*);
  waiting_answers(Handlers& handlers, handler handle, const byte_service::method& method,
                  grpc::ServerCompletionQueue& queue)
      : Kind(handlers.door(), method, queue), handlers_(handlers), handle_(handle) {}

 private:
  void again() override { new waiting_answers(handlers_, handle_, this->method(), this->queue()); }
  void message_came(bool well) override {
    if (!well) return this->refuse([&] { return this->ended_by(no_message()); });
    if (!this->decode(request_)) return this->refuse([&] { return this->ended_as(undecodable); });
    try {
      (handlers_.*handle_)(*this, &request_);
    } catch (...) {  // what was asked for makes no sense
      this->refuse([&] { return this->ended_by(service::failure_of(std::current_exception())); });
    }
  }

  Handlers& handlers_;
  const handler handle_;
  Request request_;
};

/// Of messages from the client, or from both.
template <typename Kind>
class waiting_stream final : public Kind {
 public:
  using Kind::Kind;

 private:
  void again() override { new waiting_stream(this->door(), this->method(), this->queue()); }
};

/// A service as the door needs it.
class served_service {
 public:
  served_service(door_parts& door, const std::string& name) : door_(door), service_(name) {}
  served_service(const served_service&) = delete;
  served_service& operator=(const served_service&) = delete;
  virtual ~served_service() = default;
  [[nodiscard]] grpc::Service& service() noexcept { return service_; }
  [[nodiscard]] door_parts& door() const noexcept { return door_; }
  /// Lets calls of all methods wait on this queue. After the server has started, and before the queue's thread has.
  virtual void wait_on(grpc::ServerCompletionQueue& queue) = 0;

 protected:
  template <typename Handlers, typename Request, typename Response>
  void wait_for_unary(Handlers& handlers, grpc::ServerCompletionQueue& queue, std::string_view method,
                      void (Handlers::*handle)(unary_call&, const Request*, Response*), callers who = callers::users) {
    for (int i = 0; i < waiting_at_once; ++i) {
      new waiting_unary<Handlers, Request, Response>(handlers, handle, who, service_.find(method), queue);
    }
  }
  template <typename Handlers, typename Request, typename Kind>
  void wait_for_answers(Handlers& handlers, grpc::ServerCompletionQueue& queue, std::string_view method,
                        void (Handlers::*handle)(Kind&, const Request*)) {
    new waiting_answers<Handlers, Request, Kind>(handlers, handle, service_.find(method), queue);
  }
  template <typename Kind>
  void wait_for(grpc::ServerCompletionQueue& queue, std::string_view method) {
    new waiting_stream<Kind>(door_, service_.find(method), queue);
  }

  door_parts& door_;

 private:
  byte_service service_;
};

}  // namespace icecore::doors
