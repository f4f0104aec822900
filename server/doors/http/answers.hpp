// What the HTTP door says to a request: a pure function of the method, the path and what the server knows.
//
//   answer_to({.method = "GET", .target = "/healthz", .by = {}}, sources)   -> 200 "ok\n"
//
// | path | answer |
// |---|---|
// | /metrics | 200 and all metrics in the text format of Prometheus |
// | /healthz | 200 as long as the process answers |
// | /readyz | 200, or 503 and what is not ready, one a line |
// | other | 404; other methods than GET and HEAD: 405 |
//
// Errors: errc::unauthenticated of a source becomes 401 with its text; what else it throws becomes 500, without its
// text, which the caller of the door gets (`failed`). Threads: as its sources. Cost: that of the source.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace icecore::server::http {

/// What whoever asks has shown of who that is. The door compares nothing.
struct caller {
  std::string_view authorization = {};  ///< the field Authorization; empty: there is none
  std::string_view certified = {};      ///< the common name of a client certificate that was verified; empty: none
};

/// Where answers come from. They are called in the door's thread and must be quick. What they tell may depend on the
/// caller; errc::unauthenticated if what the caller shows is wrong.
struct sources {
  /// All metrics, in the text format of Prometheus.
  std::function<std::string(const caller&)> metrics;
  /// What is not ready, each with its reason: "database models: damaged". Nothing: the server is ready.
  std::function<std::vector<std::string>(const caller&)> not_ready;
};

struct question {
  std::string_view method;
  std::string_view target;  ///< with its query, which is ignored
  caller by;
};

struct answer {
  unsigned status = 200;
  std::string_view content_type = "text/plain; charset=utf-8";
  std::string body = {};
  std::string_view path = "other";  ///< for metrics: one of the table's
  bool with_body = true;            ///< not for HEAD
  std::string failed = {};          ///< why it is 500, for the log
};

[[nodiscard]] answer answer_to(const question& asked, const sources& from);

/// An answer of a line to what is no request that is answered: 400, 401, 413, 431, 503.
[[nodiscard]] answer refusal(unsigned status, std::string_view text);

}  // namespace icecore::server::http
