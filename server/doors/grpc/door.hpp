// The gRPC door: icecore.v1 (server/proto/icecore/v1/icecore.proto) for clients in any language.
//
//   grpc_door door(the_service, {.host = "127.0.0.1", .port = 7480});
//   door.start();                                         // door.port() says which, if 0 was asked for
//   door.stop(30s);
//
// Threads: those of the completion queues call the handlers, which never wait there: what may wait for a device, a lock
//   or much memory runs on the door's other threads. start() and stop() belong to one thread.
// Memory: each call holds its request's bytes of `in_flight_bytes`, each stream one block; gRPC itself stays within a
//   resource quota of `in_flight_bytes`. A client that does not read is waited for, then cut (`stalled_limit`).
// Lifetime: the service must outlive the door. stop(), or the destructor, ends all calls before it returns.
// Errors: icecore::error: invalid_argument for files that are no certificates and keys, or an address that is none;
//   unavailable if the port is taken, saying which.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "service/service.hpp"

namespace icecore::doors {

/// TLS 1.3. All are files in PEM; they are read again when they change.
struct grpc_tls {
  enum class clients : std::uint8_t {
    no_certificate,  ///< clients are not asked for one
    may_show,        ///< who shows one that `client_authorities` signed is the user whom its common name names
    must_show,
  };
  std::string certificate;  ///< the server's, and those between it and its authority; empty: no TLS
  std::string key;
  std::string client_authorities;  ///< the authorities that sign clients' certificates
  clients from_clients = clients::no_certificate;
  std::chrono::seconds reload_interval{60};
};

/// One call that has ended. The views are valid during finished().
struct call_report {
  std::string_view method;  ///< "Store.Get"
  int status;               ///< gRPC's code: 0 is OK
  std::chrono::nanoseconds took;
  std::string_view request;  ///< what the client sent as `x-request-id`; at most 128 bytes
  std::string_view user;     ///< empty: not known, or there are no users
  std::string_view message;  ///< of an error
};

/// Is told of each call's end: for metrics and logs. Any number of threads call it at once; it must not block.
class call_observer {
 public:
  call_observer() = default;
  call_observer(const call_observer&) = delete;
  call_observer& operator=(const call_observer&) = delete;
  virtual ~call_observer() = default;
  virtual void finished(const call_report& what) noexcept = 0;
};

struct grpc_door_options {
  std::string host = "127.0.0.1";  ///< a name or an address; "0.0.0.0" and "::" are all
  std::uint16_t port = 7480;       ///< 0: one that is free
  grpc_tls tls{};
  std::string server_name{};  ///< what Status tells
  std::shared_ptr<call_observer> observer{};
  unsigned threads = 0;          ///< of what may wait; 0: four times the cores, at least 8
  unsigned polling_threads = 0;  ///< that read and decode requests; 0: half the cores, 1 to 8
  std::uint32_t streams_per_connection = 1000;
  std::chrono::milliseconds keepalive{30'000};       ///< an idle peer is asked so often whether it is there ...
  std::chrono::milliseconds keepalive_wait{20'000};  ///< ... and has so long to answer
  std::chrono::milliseconds stalled_limit{60'000};   ///< a client may take so long to read an answer
};

class grpc_door {
 public:
  grpc_door(service::service& all, grpc_door_options options);
  ~grpc_door();
  grpc_door(const grpc_door&) = delete;
  grpc_door& operator=(const grpc_door&) = delete;

  /// Binds the port and serves. Once.
  void start();
  /// The port that is served.
  [[nodiscard]] std::uint16_t port() const noexcept;
  struct numbers {
    std::uint64_t refused_of_user;  ///< calls on more connections than `limits.connections_per_user`
    std::uint64_t closed_unread;    ///< calls whose message took longer than `limits.read_limit`
    std::uint64_t cut_stalled;      ///< calls whose client took longer than `stalled_limit` to read
  };
  /// Since the door was made.
  [[nodiscard]] numbers counted() const noexcept;
  /// Takes no new calls, ends watches (unavailable), lets other calls end within the limit, then cancels them. What a
  /// transaction that was taken does, it does: it is waited for. Does nothing the second time.
  void stop(std::chrono::milliseconds limit);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace icecore::doors
