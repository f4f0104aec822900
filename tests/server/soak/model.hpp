// One database that one thread writes, so that it knows every answer.
#pragma once

#include <deque>
#include <map>
#include <random>
#include <set>

#include "soak/load.hpp"

namespace icecore::soak {

/// The same database through both doors, call by call. Connections are made anew now and then.
class alternating {
 public:
  alternating(const place& where, std::string database) : where_(where), database_(std::move(database)) { renew(); }
  /// Until the next call, which may end the connection: one call an expression.
  ways::way& next();
  [[nodiscard]] ways::connection& any() { return *connections_[calls_++ % 2]; }
  void renew();

 private:
  const place& where_;
  const std::string database_;
  std::vector<std::unique_ptr<ways::connection>> connections_;
  std::vector<std::unique_ptr<ways::way>> ways_;
  std::uint64_t calls_ = 0;
};

/// Waits between calls, so that all threads together make about as many as wanted.
void pause_between_calls(const place& where);

[[nodiscard]] ways::destination to(ways::door through, const place& where);

/// Works on a database `name` of this rule until then.
void work_on_model(const place& where, remote::version_rule rule, const std::string& name, std::uint64_t seed,
                   clock::time_point until, verdict& said);

}  // namespace icecore::soak
