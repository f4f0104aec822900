// Mixed load on a server, and what it must answer.
//
//   verdict said;
//   lasting stays(where, said);                         // a database, connections and watches for the whole run
//   run_round(where, 17, until, said);                  // databases of their own, made, used, dropped
//   for (const std::string& each : said.wrong()) ...
//
// Each thread of a round has a database of its own and a model of it, so it knows every answer; readers of another's
// database know what must hold at any instant. Calls of one thread alternate between the doors.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ways/way.hpp"

namespace icecore::soak {

using clock = std::chrono::steady_clock;

/// What was found. Any number of threads.
class verdict {
 public:
  template <typename... Values>
  void require(bool holds, fmt::format_string<const Values&...> text, const Values&... values) {
    ++checks_;
    if (!holds) add(fmt::format(text, values...));
  }
  void add(const std::string& wrong);
  [[nodiscard]] std::uint64_t checks() const noexcept { return checks_; }
  [[nodiscard]] std::vector<std::string> wrong() const;

 private:
  std::atomic<std::uint64_t> checks_{0};
  mutable std::mutex mutex_;
  std::vector<std::string> wrong_;
};

struct place {
  std::string grpc, ucx, http;    // addresses
  double calls_per_second = 100;  // of all threads together, about
  bool wrong_model = false;       // one model is wrong: the run must find that
};

/// Makes databases, works until then, drops them, and closes all its connections.
void run_round(const place& where, std::uint64_t round, clock::time_point until, verdict& said);

/// A database that stays: one write a round through each door, told by a watch through each.
class lasting {
 public:
  lasting(const place& where, verdict& said);
  void write_and_watch();
  /// The newest value that was acknowledged.
  [[nodiscard]] std::uint64_t last() const noexcept { return last_; }
  [[nodiscard]] ways::connection& connection() noexcept { return *connections_[0]; }

 private:
  verdict& said_;
  std::vector<std::unique_ptr<ways::connection>> connections_;
  std::vector<std::unique_ptr<ways::way>> ways_;
  std::vector<std::unique_ptr<ways::watcher>> watchers_;
  std::uint64_t last_ = 0;
};

}  // namespace icecore::soak
