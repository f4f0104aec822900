// Requests that took long, in the log, with the trace identifier that the client sent.
//
//   slow_log slow(log, 100ms);
//   slow.record({.door = "grpc", .operation = "scan", .duration = took, .trace = traceparent});
//
// No keys and values are in it. At most a hundred lines a second; the next one tells how many were left out.
// Threads: any. Cost: a comparison for a request that was quick; else that of a line. `log` must outlive it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "run/log/log.hpp"

namespace icecore::server {

struct finished_request {
  std::string_view door;            ///< "grpc", "ucx", "http"
  std::string_view operation;       ///< "put"
  std::string_view user = {};       ///< empty: nobody logged in
  std::string_view trace = {};      ///< as the client sent it, such as a W3C traceparent
  std::string_view outcome = "ok";  ///< or the name of the error
  std::chrono::microseconds duration{0};
  struct known_parts {
    std::string_view database;  ///< its name; empty: the request names none
    std::uint64_t request_bytes;
    std::uint64_t answer_bytes;
  };
  std::optional<known_parts> parts = {};  ///< of doors that know them
};

class slow_log {
 public:
  /// `over` 0: nothing is slow.
  slow_log(log& out, std::chrono::microseconds over) noexcept : out_(out), over_(over) {}

  [[nodiscard]] bool is_slow(std::chrono::microseconds duration) const noexcept {
    return over_.count() > 0 && duration > over_;
  }

  void record(const finished_request& request) {
    constexpr unsigned per_second = 100;
    if (!is_slow(request.duration)) return;
    const log_field door{"door", request.door};
    const log_field operation{"operation", request.operation};
    const log_field user{"user", request.user};
    const log_field trace{"trace", request.trace};
    const log_field outcome{"outcome", request.outcome};
    const log_field duration{"duration_us", request.duration.count()};
    if (!request.parts) {
      out_.write_limited(log_level::warning, "request.slow", {door, operation, user, trace, outcome, duration},
                         per_second);
      return;
    }
    out_.write_limited(log_level::warning, "request.slow",
                       {door,
                        operation,
                        {"database", request.parts->database},
                        user,
                        trace,
                        outcome,
                        duration,
                        {"request_bytes", request.parts->request_bytes},
                        {"answer_bytes", request.parts->answer_bytes}},
                       per_second);
  }

 private:
  log& out_;
  const std::chrono::microseconds over_;
};

}  // namespace icecore::server
