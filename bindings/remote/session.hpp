// The servers of a client: which one has a key, and calls that survive broken connections.
//
//   auto all = std::make_shared<session>("ucx://a:1,b:2", opening);
//   wire::answer got = all->call({.server = all->server_of(key), .database = "weights", .repeatable = true},
//                                get_request::number, [&] { return encoded(asked); }, deadline);
//
// Threads: any number. Errors: icecore::error (link.hpp); outcome_unknown where a write may have been done and must not
// be repeated.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/remote.hpp"
#include "link.hpp"

namespace icecore::remote::detail {

/// Whom a call is for, and whether it may be made twice.
struct call_facts {
  std::size_t server = 0;
  std::string database{};  ///< empty: none
  bool repeatable = false;
};

class session {
 public:
  session(std::string_view address, const options& opening);

  [[nodiscard]] const options& opened_with() const noexcept { return options_; }
  [[nodiscard]] bool independent() const noexcept { return options_.grouping == grouping::independent; }
  /// How many servers have a part of a database of their own: 1 of dependent ones.
  [[nodiscard]] std::size_t parts() const noexcept { return independent() ? links_.size() : 1; }
  [[nodiscard]] std::size_t servers() const noexcept { return links_.size(); }
  [[nodiscard]] std::size_t server_of(std::string_view key) const noexcept {
    return independent() ? wire::owner_of(key, static_cast<std::uint32_t>(links_.size())) : 0;
  }
  /// The link that now serves this part: of dependent servers, one that could be reached.
  [[nodiscard]] link& link_of(std::size_t part) noexcept {
    return independent() ? *links_[part] : *links_[preferred_.load(std::memory_order_relaxed)];
  }
  /// Waits a little and, of dependent servers, turns to the next one. Throws `why` if the deadline is too near.
  void after_failure(const icecore::error& why, unsigned attempt, steady_time deadline);

  /// Sends what `make` makes (again for each attempt) and waits for the answer, which is the server's own.
  template <class Make>
  [[nodiscard]] wire::answer call(const call_facts& facts, operation_number number, const Make& make,
                                  steady_time deadline) {
    for (unsigned attempt = 0;; ++attempt) {
      endpoint_pointer endpoint;
      std::uint32_t handle = 0;
      link& to = link_of(facts.server);
      try {
        endpoint = to.connect(facts.database, handle, deadline);
      } catch (const icecore::error& why) {
        after_failure(why, attempt, deadline);
        continue;
      }
      wire::answer got = endpoint->call(static_cast<std::uint16_t>(number), handle, make(), deadline);
      if (settle(got, to, endpoint, facts.repeatable, attempt, deadline)) return got;
    }
  }

  /// Whether the answer is final. Otherwise the call is to be made again; throws if that is not possible.
  [[nodiscard]] bool settle(const wire::answer& got, link& to, const endpoint_pointer& endpoint, bool repeatable,
                            unsigned attempt, steady_time deadline);

 private:
  void check_place(std::size_t server, wire::client_endpoint& connected, steady_time deadline);

  options options_;
  std::vector<std::unique_ptr<link>> links_;
  std::atomic<std::size_t> preferred_{0};  // relaxed: any of them will do
  std::mutex group_mutex_;
  std::string group_name_;  // of independent servers, as the first one told
};

/// A database by its name, and the session that it is in.
class database {
 public:
  database(std::shared_ptr<session> in, std::string named) : all(std::move(in)), name(std::move(named)) {}

  template <class Answer, class Request>
  [[nodiscard]] Answer ask(std::size_t part, const Request& asked, steady_time deadline, bool repeatable) const {
    const wire::answer got = all->call(
        {.server = part, .database = name, .repeatable = repeatable}, Request::number,
        [&] { return wire::encoded(asked); }, deadline);
    return read_answer<Answer>(got, all->link_of(part).name());
  }
  /// The only part. errc::invalid_argument of several independent servers, with `what` in the message.
  [[nodiscard]] std::size_t only_part(const char* what) const;

  const std::shared_ptr<session> all;
  const std::string name;
};

[[nodiscard]] inline steady_time in(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

}  // namespace icecore::remote::detail
