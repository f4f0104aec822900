// The UCX door: icecore's own frames (server/wire) for programs of the same job, in C++, C and as SKV.
//
//   ucx_door door(the_service, {.port = 7482, .token = the_jobs_secret});
//   door.start();                                         // door.port() says which, if 0 was asked for
//   door.stop(30s);
//
// UCX encrypts nothing and trusts its peers: the token keeps strangers away, and the door belongs inside a job's own
// network. Who a client is, it says when it connects: a user and a password, or a log-in's token instead.
//
// Threads: the wire's own; reads and writes that wait for nobody run on them, all else on the service's threads.
// start()
//   and stop() belong to one thread.
// Memory: requests and answers that wait are within `limits.in_flight_bytes`, those of one connection within
//   `limits.output_bytes`; a client that does not read is waited for, then cut.
// Lifetime: the service must outlive the door. stop(), or the destructor, ends all calls before it returns.
// Errors: icecore::error: invalid_argument for a token that is too short or an address that is none; unavailable if the
//   port is taken, or UCX does not start, saying why.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "service/service.hpp"

namespace icecore::doors {

/// One request that was answered. The views are valid during finished().
struct ucx_call_report {
  std::uint16_t operation;  ///< its number
  std::string_view name;    ///< of the operation: "put"
  std::uint16_t status;     ///< 0, or the number of an errc
  std::chrono::nanoseconds took;
  std::string_view database;  ///< empty: the request names none by a handle
  std::string_view user;      ///< empty: there are no users
  std::string_view program;   ///< how the client's program calls itself; of what a client says, the first 128 bytes
  std::uint64_t request_bytes;
  std::uint64_t answer_bytes;
};

/// Is told of each request's end, and of what is worth a line in a log. Any number of threads call it at once; it must
/// not block.
class ucx_observer {
 public:
  ucx_observer() = default;
  ucx_observer(const ucx_observer&) = delete;
  ucx_observer& operator=(const ucx_observer&) = delete;
  virtual ~ucx_observer() = default;
  virtual void finished(const ucx_call_report& what) noexcept = 0;
  /// At most one a second.
  virtual void warned(std::string_view /*text*/) noexcept {}
};

enum class ucx_transports : std::uint8_t {
  automatic,      ///< whatever is fastest
  shared_memory,  ///< clients of this machine alone
  tcp,
};

struct ucx_door_options {
  std::string host = "127.0.0.1";
  std::uint16_t port = 7482;  ///< 0: one that is free
  std::string token{};        ///< of the job, at least 8 bytes
  ucx_transports transports = ucx_transports::automatic;
  std::string server_name{};  ///< what `status` tells
  std::shared_ptr<ucx_observer> observer{};
  unsigned io_threads = 0;  ///< 0: half as many as there are cores, at most 8
};

/// What the door has counted since it was started.
struct ucx_door_counters {
  std::uint64_t connections_accepted = 0;
  std::uint64_t connections_open = 0;
  std::uint64_t requests = 0;
  std::uint64_t refused_busy = 0;      ///< requests that came while too many bytes were in flight
  std::uint64_t closed_malformed = 0;  ///< connections that broke the rules of the protocol
  std::uint64_t closed_over_limit = 0;
  std::uint64_t closed_not_reading = 0;
  std::uint64_t refused_tokens = 0;
  std::uint64_t refused_full = 0;  ///< connections that found no place
};

class ucx_door {
 public:
  ucx_door(service::service& all, ucx_door_options options);
  ~ucx_door();
  ucx_door(const ucx_door&) = delete;
  ucx_door& operator=(const ucx_door&) = delete;

  /// Binds the port and serves. Once.
  void start();
  /// The port that is served.
  [[nodiscard]] std::uint16_t port() const noexcept;
  /// After start(), by any thread.
  [[nodiscard]] ucx_door_counters counters() const noexcept;
  /// Takes no new requests, ends watches (unavailable), lets other requests be answered within the limit, then cuts
  /// those who are still there. What a transaction that was taken does, it does: it is waited for. Does nothing the
  /// second time.
  void stop(std::chrono::milliseconds limit);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace icecore::doors
