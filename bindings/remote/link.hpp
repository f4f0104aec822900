// One server, as a client sees it: a connection that is made when it is needed, and again when it broke.
//
//   link to({.address = {"node7", 4711}, ...});
//   wire::answer got = to.call(get_request::number, &database, [&] { return encoded(asked); }, deadline);
//
// Threads: any number. The mutex guards which connection is the present one and the handles of databases on it; it is
// held while a connection is made, so that several callers make one, and never during a call.
// Errors: icecore::error, as connect() says; how a call ended is told with its answer. Cost: a lock and a call.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "icecore/error.hpp"
#include "wire/client/client_endpoint.hpp"
#include "wire/messages/answers.hpp"
#include "wire/messages/request.hpp"

namespace icecore::remote::detail {

using wire::operation_number;
using wire::steady_time;
using endpoint_pointer = std::shared_ptr<wire::client_endpoint>;

/// Why a call failed that the server has answered: throws the server's error, or that it has none.
[[noreturn]] void throw_answer(const wire::answer& got, const std::string& server);

/// Reads an answer of a server; damaged ones are errc::io.
template <class Answer>
[[nodiscard]] Answer read_answer(const wire::answer& got, const std::string& server) {
  Answer read;
  if (got.status != wire::status_ok) throw_answer(got, server);
  if (!wire::decoded(got.payload.view(), read)) {
    throw icecore::error(errc::io, "the server " + server +
                                       " gave an answer that is not understood: is it of another "
                                       "version than this client?");
  }
  return read;
}

/// errc::limit_reached: the server takes no request of so many bytes. Asked before it is sent: else the connection
/// would be taken for broken, with all that is under way on it, and the request be repeated until its deadline.
void require_short_request(std::size_t bytes, const wire::client_endpoint& at, const std::string& server);

class link {
 public:
  /// Called with each new connection before it is used; throws if it is to another server than was meant.
  using check = std::function<void(wire::client_endpoint&, steady_time)>;
  link(wire::client_settings settings, check on_connected);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// The connection; makes one if there is none. errc::unavailable, unauthenticated, other_cluster.
  [[nodiscard]] endpoint_pointer connect(steady_time deadline);
  /// The same, with the database's handle on it; opens it there. `name` empty: no database, handle 0.
  [[nodiscard]] endpoint_pointer connect(const std::string& database, std::uint32_t& handle, steady_time deadline);
  /// Gives up this connection, if it is still the present one.
  void lost(const endpoint_pointer& broken);
  /// The next use of the database opens it again.
  void forget(const std::string& database);
  /// Asks the server for the database, also if it was there before: errc::denied if it is not there now.
  void look_up(const std::string& database, steady_time deadline);
  /// How often it failed, one time after the other, since a call was answered. Relaxed: it decides alone how long
  /// others go around this server.
  [[nodiscard]] unsigned failures() const noexcept { return failures_.load(std::memory_order_relaxed); }
  void set_failures(unsigned count) noexcept { failures_.store(count, std::memory_order_relaxed); }

 private:
  [[nodiscard]] const endpoint_pointer& present(steady_time deadline);
  [[nodiscard]] std::uint32_t open(const std::string& database, steady_time deadline);
  void close(std::uint32_t handle);

  wire::client_settings settings_;
  check on_connected_;
  std::string name_;
  std::mutex mutex_;
  std::atomic<unsigned> failures_{0};
  endpoint_pointer endpoint_;
  // Handles on endpoint_. A handle stands for the name, whoever drops the database and makes another one.
  std::unordered_map<std::string, std::uint32_t> databases_;
};

}  // namespace icecore::remote::detail
