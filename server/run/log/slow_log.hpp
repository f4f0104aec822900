// Requests that took long, in the log, with the trace identifier that the client sent.
//
//   slow_log slow(log, 100ms);
//   slow.record({.door = "grpc", .operation = "scan", .database = "models", .duration = took, .trace = traceparent});
//
// No keys and values are in it. At most a hundred lines a second; the next one tells how many were left out.
// Threads: any. Cost: a comparison for a request that was quick; else that of a line. `log` must outlive it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "run/log/log.hpp"

namespace icecore::server {

struct finished_request {
  std::string_view door;            ///< "grpc", "ucx", "http"
  std::string_view operation;       ///< "put"
  std::string_view database = {};   ///< its name
  std::string_view user = {};       ///< empty: nobody logged in
  std::string_view trace = {};      ///< as the client sent it, such as a W3C traceparent
  std::string_view outcome = "ok";  ///< or the name of the error
  std::chrono::microseconds duration{0};
  std::uint64_t request_bytes = 0;
  std::uint64_t answer_bytes = 0;
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
    out_.write_limited(log_level::warning, "request.slow",
                       {{"door", request.door},
                        {"operation", request.operation},
                        {"database", request.database},
                        {"user", request.user},
                        {"trace", request.trace},
                        {"outcome", request.outcome},
                        {"duration_us", request.duration.count()},
                        {"request_bytes", request.request_bytes},
                        {"answer_bytes", request.answer_bytes}},
                       per_second);
  }

 private:
  log& out_;
  const std::chrono::microseconds over_;
};

}  // namespace icecore::server
