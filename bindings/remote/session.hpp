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
#include <utility>
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

class [[gnu::visibility("hidden")]] session {
 public:
  session(std::string_view address, const options& opening);

  [[nodiscard]] const options& opened_with() const noexcept { return options_; }
  [[nodiscard]] bool independent() const noexcept { return options_.grouping == grouping::independent; }
  /// How many servers have a part of a database of their own: 1 of dependent ones.
  [[nodiscard]] std::size_t parts() const noexcept { return independent() ? links_.size() : 1; }
  [[nodiscard]] std::size_t servers() const noexcept { return links_.size(); }
  /// Which part has the key.
  [[nodiscard]] std::size_t part_of(std::string_view key) const noexcept {
    return independent() ? wire::owner_of(key, static_cast<std::uint32_t>(links_.size())) : 0;
  }
  // Servers that a call can be for: a part; and of dependent servers, whose only part is 0, also the owner of a key,
  // which has the number 1 + its own. Any of them answers, so the owner is a matter of speed alone.
  [[nodiscard]] std::size_t targets() const noexcept;
  [[nodiscard]] std::size_t server_of(std::string_view key) const noexcept;
  /// The link that now serves this target: of dependent servers, one that could be reached.
  [[nodiscard]] link& link_of(std::size_t target) noexcept;
  /// A link that only saves a hop: if it fails in any way, another one does what it was to do.
  [[nodiscard]] bool only_saves_a_hop(const link& which) const noexcept;
  /// Asks a dependent group for its servers again, if not all had told where they are; at most once a second.
  void look_again(steady_time deadline);
  /// The next use of the database opens it again, at all servers.
  void forget(const std::string& database);
  /// Waits a little and, of dependent servers, turns away from `from`. Throws `why` if the deadline is too near.
  void after_failure(const icecore::error& why, unsigned attempt, steady_time deadline, link& from);

  /// Sends what `make` makes (again for each attempt) and waits for the answer, which is the server's own.
  template <class Make>
  [[nodiscard]] wire::answer call(const call_facts& facts, operation_number number, const Make& make,
                                  steady_time deadline) {
    look_again(deadline);
    for (unsigned attempt = 0;; ++attempt) {
      endpoint_pointer endpoint;
      std::uint32_t handle = 0;
      link& to = link_of(facts.server);
      try {
        endpoint = to.connect(facts.database, handle, deadline);
      } catch (const icecore::error& why) {
        after_failure(why, attempt, deadline, to);
        continue;
      }
      wire::byte_buffer payload = make();
      require_short_request(payload.size(), *endpoint, to.name());
      wire::answer got = endpoint->call(static_cast<std::uint16_t>(number), handle, std::move(payload), deadline);
      if (settle(got, to, endpoint, facts.repeatable, attempt, deadline)) return got;
    }
  }

  /// Whether the answer is final. Otherwise the call is to be made again; throws if that is not possible.
  [[nodiscard]] bool settle(const wire::answer& got, link& to, const endpoint_pointer& endpoint, bool repeatable,
                            unsigned attempt, steady_time deadline);

 private:
  // The servers of a dependent group, by their numbers, as one of them told. A map never changes and lives as long as
  // the session; when the group tells another one, that one takes its place.
  struct owner {
    link* to = nullptr;           // one of links_, or `own`
    std::unique_ptr<link> own{};  // null: it is one of the servers of the list
    // Relaxed: they decide which way a call goes, and any way leads to the key.
    std::atomic<std::int64_t> avoid_until{0};  // a time of the steady clock; 0: it has never failed
  };
  struct owner_map {
    std::vector<std::string> addresses;  // what it was made from
    std::vector<std::unique_ptr<owner>> owners;
  };

  [[nodiscard]] wire::client_settings settings_of(wire::socket_address address) const;
  [[nodiscard]] wire::group_answer ask_place(const std::string& name, wire::client_endpoint& of, steady_time deadline);
  void check_place(std::size_t server, wire::client_endpoint& connected, steady_time deadline);
  // Precondition of both: group_mutex_ is held.
  void learn(std::size_t server, const wire::group_answer& told);
  [[nodiscard]] std::unique_ptr<owner> owner_at(const std::string& address, std::uint32_t index, std::size_t server,
                                                std::uint32_t server_index);

  options options_;
  std::vector<std::unique_ptr<link>> links_;
  std::vector<std::unique_ptr<owner_map>> maps_;  // guarded by group_mutex_
  std::atomic<const owner_map*> map_{nullptr};    // release when it is complete, acquire by who uses it
  std::atomic<bool> incomplete_{false};           // relaxed: not all servers had told their addresses
  std::atomic<std::int64_t> next_look_{0};        // relaxed, of the steady clock
  std::atomic<std::size_t> preferred_{0};         // relaxed: any of them will do
  std::mutex group_mutex_;
  std::string group_name_;  // of independent servers, as the first one told
};

/// A database by its name, and the session that it is in.
class [[gnu::visibility("hidden")]] database {
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
