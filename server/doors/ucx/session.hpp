// A connection as the door knows it: whose it is, and what it has open.
//
// Threads: `databases` belongs to the connection's I/O thread. Rows and watches are opened and closed by any thread,
// under `mutex`. Once `over` is set nothing is added to them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "doors/ucx/handles.hpp"
#include "service/service.hpp"

namespace icecore::doors {

class open_rows;
class open_watch;

struct named_database {
  std::shared_ptr<service::database> open;
  std::string name;
};

/// How many connections a user has; given back at its end.
class user_connections;
class user_share {
 public:
  user_share() noexcept = default;
  user_share(std::shared_ptr<user_connections> of, std::string name) noexcept
      : of_(std::move(of)), name_(std::move(name)) {}
  user_share(user_share&& other) noexcept = default;
  user_share& operator=(user_share&& other) noexcept {
    std::swap(of_, other.of_);
    std::swap(name_, other.name_);
    return *this;
  }
  ~user_share();

 private:
  std::shared_ptr<user_connections> of_;
  std::string name_;
};

struct ucx_session {
  static constexpr std::uint32_t handles_most = 65'536;

  ucx_session(service::principal user, std::string shown, bool logged_in)
      : who(std::move(user)), token(std::move(shown)), own_token(logged_in) {}

  /// Ends rows and watches; what waits for them is answered.
  void end(const service::failure& why);
  /// Throws what ended it. Under `mutex`.
  void require_open() const;

  service::principal who;  // of the I/O thread, which has it recognised anew when it is refused; copies go elsewhere
  const std::string token;
  const bool own_token;   // the door has logged in for the client, and logs out
  std::string program{};  // how the client's program calls itself; set before the first request
  service::gauge::share connections;
  user_share of_user;
  handle_table<named_database> databases{1024, "databases"};

  std::mutex mutex;
  std::optional<service::failure> over{};
  handle_table<std::shared_ptr<open_rows>> rows{handles_most, "scans"};
  handle_table<std::shared_ptr<open_watch>> watches{handles_most, "watches"};
};

}  // namespace icecore::doors
