// A server in this process for tests of clients: the wire's endpoint before the service, every request answered by the
// thread that reads it. It is small, not fast: the real door is server/doors/ucx.
//
//   test_server server;
//   icecore::remote::client c(server.address(), {.token = test_server::token});
//
// Threads: the endpoint's. break_connections() ends all of them, as a network does. Lifetime: its folder is removed.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "service/service.hpp"
#include "wire/messages/answers.hpp"
#include "wire/messages/request.hpp"
#include "wire/server/server_endpoint.hpp"

class test_server final : public icecore::wire::frame_handler {
 public:
  static constexpr const char* token = "a token of tests";

  explicit test_server(icecore::service::group_place place = {}, std::uint16_t port = 0);
  ~test_server() override;

  [[nodiscard]] std::string host_and_port() const;
  [[nodiscard]] std::string address() const { return "ucx://" + host_and_port(); }
  [[nodiscard]] icecore::service::service& service() noexcept { return *service_; }

  /// Ends all connections.
  void break_connections();
  /// The next request of this operation is executed (`then`: also answered), or not, and its connection is ended.
  void break_at(icecore::wire::operation_number operation, bool executed);
  /// The next request of this operation is let go of: it is neither executed nor answered by more than that.
  void drop_at(icecore::wire::operation_number operation);
  /// How many requests of this operation came.
  [[nodiscard]] std::uint64_t count(icecore::wire::operation_number operation);

  icecore::wire::admission admit(const icecore::wire::hello& said, const std::string& peer) override;
  void on_open(const std::shared_ptr<icecore::wire::connection>& opened) override;
  void on_request(icecore::wire::request&& asked) override;
  void on_close(icecore::wire::connection& closed, icecore::wire::close_reason reason) override;

 private:
  struct session;
  struct handler;

  std::filesystem::path folder_;
  icecore::service::group_place place_;
  std::unique_ptr<icecore::service::service> service_;
  std::mutex mutex_;
  std::map<std::uint32_t, std::shared_ptr<icecore::wire::connection>> open_;
  std::map<icecore::wire::operation_number, std::uint64_t> counts_;
  std::optional<std::pair<icecore::wire::operation_number, bool>> break_at_;
  std::optional<icecore::wire::operation_number> drop_at_;
  std::unique_ptr<icecore::wire::server_endpoint> endpoint_;
};
