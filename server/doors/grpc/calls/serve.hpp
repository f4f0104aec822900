// How calls come: for each method objects wait on each completion queue. The one whose client has come makes its
// successor, and begins.
//
//   class lease_calls final : public served_service {
//     void wait_on(grpc::ServerCompletionQueue& queue) override {
//       wait_for_unary(*this, queue, service_, &methods::RequestGrant, "Leases.Grant", &lease_calls::Grant);
//       wait_for_stream<lease_keeper>(queue, door_, service_, &methods::RequestKeepAlive, "Leases.KeepAlive");
//     }
//     void Grant(unary_call& its, const v1::GrantRequest* request, v1::Lease* response) {
//       answer_on(door_.work, its, *request, [=](unary_call& c) { ... });
//     }
//   };
//
// Lifetime: the service outlives its server. What waits ends when the server shuts down. Threads: the queues'.
#pragma once

#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>

#include <utility>

#include "doors/grpc/calls/call.hpp"

namespace icecore::doors {

/// A service as the door needs it.
class served_service {
 public:
  explicit served_service(door_parts& door) : door_(door) {}
  served_service(const served_service&) = delete;
  served_service& operator=(const served_service&) = delete;
  virtual ~served_service() = default;
  [[nodiscard]] virtual grpc::Service& service() noexcept = 0;
  /// Lets calls of all methods wait on this queue. After the server has started.
  virtual void wait_on(grpc::ServerCompletionQueue& queue) = 0;
  [[nodiscard]] door_parts& door() const noexcept { return door_; }

 protected:
  door_parts& door_;
};

/// How gRPC is asked for a call of a method: with the request's message, and without.
template <typename Service, typename Request, typename Io>
using ask_with_request = void (Service::*)(grpc::ServerContext*, Request*, Io*, grpc::CompletionQueue*,
                                           grpc::ServerCompletionQueue*, void*);
template <typename Service, typename Io>
using ask_without_request = void (Service::*)(grpc::ServerContext*, Io*, grpc::CompletionQueue*,
                                              grpc::ServerCompletionQueue*, void*);

/// So many calls of a unary method find an object that waits, before the queue's thread has made more.
inline constexpr int waiting_at_once = 4;

// ---- One request, one response ----

template <typename Handlers, typename Service, typename Request, typename Response>
class waiting_unary final : public unary_call {
 public:
  struct method {
    Handlers& handlers;
    Service& service;
    ask_with_request<Service, Request, grpc::ServerAsyncResponseWriter<Response>> ask;
    const char* name;
    void (Handlers::*handle)(unary_call&, const Request*, Response*);
  };
  waiting_unary(const method& what, grpc::ServerCompletionQueue& on)
      : unary_call(what.handlers.door(), on, what.name), method_(what) {
    (what.service.*what.ask)(&context(), &request_, &io_, &on, &on, arrived_.tag());
  }

 private:
  void arrived(bool well) {
    if (!well) return will_not_begin();
    new waiting_unary(method_, queue());  // gRPC holds it
    begins();
    (method_.handlers.*method_.handle)(*this, &request_, &response_);
  }
  void finish(const grpc::Status& status) override { io_.Finish(response_, status, sent_tag()); }

  const method method_;
  Request request_;
  Response response_;
  grpc::ServerAsyncResponseWriter<Response> io_{&context()};
  event_of<waiting_unary> arrived_{*this, &waiting_unary::arrived};
};

template <typename Handlers, typename Service, typename Base, typename Request, typename Response>
void wait_for_unary(Handlers& handlers, grpc::ServerCompletionQueue& queue, Service& service,
                    ask_with_request<Base, Request, grpc::ServerAsyncResponseWriter<Response>> ask, const char* name,
                    void (Handlers::*handle)(unary_call&, const Request*, Response*)) {
  using waiting = waiting_unary<Handlers, Base, Request, Response>;
  for (int i = 0; i < waiting_at_once; ++i) {
    new waiting({.handlers = handlers, .service = service, .ask = ask, .name = name, .handle = handle}, queue);
  }
}

/// The handler runs on the queue's thread: it must not wait, and must see to it that the call ends.
template <typename Request, typename Work>
void answer_direct(unary_call& call, const Request& request, Work&& what) {
  call.attempt([&](unary_call& c) {
    c.admit(request.ByteSizeLong());
    what(c);
  });
}

/// The handler runs on a thread of `where`, and has succeeded when it returns.
template <typename Request, typename Work>
void answer_on(service::executor& where, unary_call& call, const Request& request, Work what) {
  call.attempt([&](unary_call& c) {
    c.admit(request.ByteSizeLong());
    c.go_on(where, std::move(what));
  });
}

// ---- Streams. `Kind` is a call that has io(), and refuse() or begin() ----

/// From the server, after one request.
template <typename Handlers, typename Service, typename Request, typename Kind>
class waiting_answers final : public Kind {
 public:
  struct method {
    Handlers& handlers;
    Service& service;
    ask_with_request<Service, Request, typename Kind::io_type> ask;
    const char* name;
    void (Handlers::*handle)(Kind&, const Request*);
  };
  waiting_answers(const method& what, grpc::ServerCompletionQueue& on)
      : Kind(what.handlers.door(), on, what.name), method_(what) {
    (what.service.*what.ask)(&this->context(), &request_, &this->io(), &on, &on, arrived_.tag());
  }

 private:
  void arrived(bool well) {
    if (!well) return this->will_not_begin();
    new waiting_answers(method_, this->queue());
    this->begins();
    try {
      (method_.handlers.*method_.handle)(*this, &request_);
    } catch (...) {  // what was asked for makes no sense
      this->refuse(service::failure_of(std::current_exception()));
    }
  }

  const method method_;
  Request request_;
  event_of<waiting_answers> arrived_{*this, &waiting_answers::arrived};
};

template <typename Kind, typename Handlers, typename Service, typename Base, typename Request>
void wait_for_answers(Handlers& handlers, grpc::ServerCompletionQueue& queue, Service& service,
                      ask_with_request<Base, Request, typename Kind::io_type> ask, const char* name,
                      void (Handlers::*handle)(Kind&, const Request*)) {
  new waiting_answers<Handlers, Base, Request, Kind>(
      {.handlers = handlers, .service = service, .ask = ask, .name = name, .handle = handle}, queue);
}

/// From the client, or from both.
template <typename Service, typename Kind>
class waiting_stream final : public Kind {
 public:
  struct method {
    door_parts& door;
    Service& service;
    ask_without_request<Service, typename Kind::io_type> ask;
    const char* name;
  };
  waiting_stream(const method& what, grpc::ServerCompletionQueue& on) : Kind(what.door, on, what.name), method_(what) {
    (what.service.*what.ask)(&this->context(), &this->io(), &on, &on, arrived_.tag());
  }

 private:
  void arrived(bool well) {
    if (!well) return this->will_not_begin();
    new waiting_stream(method_, this->queue());
    this->begins();
    this->begin();
  }

  const method method_;
  event_of<waiting_stream> arrived_{*this, &waiting_stream::arrived};
};

template <typename Kind, typename Service, typename Base>
void wait_for_stream(door_parts& door, grpc::ServerCompletionQueue& queue, Service& service,
                     ask_without_request<Base, typename Kind::io_type> ask, const char* name) {
  new waiting_stream<Base, Kind>({.door = door, .service = service, .ask = ask, .name = name}, queue);
}

}  // namespace icecore::doors
