// Who asks for /metrics and /readyz, and of which databases the names may be told.
//
//   page_callers callers(told.access);
//   const seen_databases seen = callers.seen_by(asking, service);     // errc::unauthenticated if a token is wrong
//   if (seen.sees("weights")) ...
//
// Without users, everybody sees all names. With users, the bearer of the token for metrics sees all of them, and a user
// (by a token of a log-in, or by a client certificate) those of the databases that this user would find in a list.
// Whoever shows nothing sees none: a database that is there and one that is not look alike. A wrong token is refused,
// so that whoever means to show one notices; a certificate of somebody who is no user shows nothing, since probes may
// need one to connect at all. Passwords are not taken: comparing one takes 100 ms, and the door has one thread.
//
// Threads: any. Cost: O(databases) where a user asks, else O(1). Errors: errc::bad_input or io for the token's file.
#pragma once

#include <array>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "doors/http/answers.hpp"
#include "run/configuration/configuration.hpp"
#include "service/service.hpp"

namespace icecore::server {

/// The databases whose names somebody may be told.
struct seen_databases {
  bool all = false;
  std::set<std::string, std::less<>> names = {};
  [[nodiscard]] bool sees(std::string_view name) const { return all || names.contains(name); }
};

class page_callers {
 public:
  explicit page_callers(configuration::access_section told);

  /// Reads the token's file anew. What it throws leaves the token as it is.
  void reload();

  [[nodiscard]] seen_databases seen_by(const http::caller& asking, service::service& from) const;

 private:
  using digest = std::array<unsigned char, 32>;
  [[nodiscard]] static digest digest_of(std::string_view text);
  [[nodiscard]] bool is_of_metrics(std::string_view token) const;

  const configuration::access_section told_;
  mutable std::mutex mutex_;  // guards `token_`
  digest token_{};            // SHA-256 of it; means nothing without access.metrics_token_file
};

}  // namespace icecore::server
