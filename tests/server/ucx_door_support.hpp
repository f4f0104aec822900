// What the tests of the UCX door share: a service with its door, and a client that asks in the wire's own messages.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "doors/ucx/door.hpp"
#include "icecore/error.hpp"
#include "service/owner.hpp"
#include "support/scratch.hpp"
#include "wire/client/client_endpoint.hpp"
#include "wire/messages/answers.hpp"
#include "wire/messages/request.hpp"

namespace icecore::doors::testing {

using namespace std::chrono_literals;
inline const std::string job_token = "the token of this test";

inline wire::steady_time soon() { return std::chrono::steady_clock::now() + 30s; }

/// What came back: the status, and the bytes.
struct told {
  wire::outcome how;
  std::uint16_t status;
  wire::byte_buffer payload;

  [[nodiscard]] errc code() const { return static_cast<errc>(status); }
  template <typename Answer>
  Answer as() const {
    Answer read;
    EXPECT_EQ(how, wire::outcome::answered);
    EXPECT_EQ(status, 0) << message();
    EXPECT_TRUE(wire::decoded(payload.view(), read));
    return read;
  }
  [[nodiscard]] std::string message() const {
    wire::failed_answer why;
    return status != 0 && wire::decoded(payload.view(), why) ? why.message : std::string();
  }
};

class client {
 public:
  explicit client(std::uint16_t port, const std::string& user = {}, const std::string& secret = {},
                  const std::string& group = {}, const std::string& program = {}) {
    wire::client_settings settings;
    settings.address = {.host = "127.0.0.1", .port = port};
    settings.token = job_token;
    settings.user = user;
    settings.secret = secret;
    settings.group = group;
    settings.name = program;
    settings.ucx.way = wire::transport::shared_memory;
    endpoint_ = std::make_unique<wire::client_endpoint>(std::move(settings));
  }

  told raw(std::uint16_t operation, std::uint32_t of, wire::byte_buffer payload) {
    wire::answer got = endpoint_->call(operation, of, std::move(payload), soon());
    return {got.how, got.status, std::move(got.payload)};
  }
  template <typename Request>
  told ask(const Request& what, std::uint32_t of) {
    return raw(static_cast<std::uint16_t>(Request::number), of, wire::encoded(what));
  }
  template <typename Request>
  told ask(const Request& what) {
    return ask(what, handle);
  }
  template <typename Request>
  std::future<wire::answer> send(const Request& what) {
    return endpoint_->send(static_cast<std::uint16_t>(Request::number), handle, wire::encoded(what), soon());
  }
  [[nodiscard]] wire::client_endpoint& endpoint() { return *endpoint_; }

  void open(const std::string& name) {
    handle = ask(wire::open_database_request{.name = name}, 0).as<wire::open_database_answer>().handle;
  }
  void create(const std::string& name, wire::wire_rule rule = wire::wire_rule::tag) {
    ask(wire::create_database_request{.settings = {.name = name, .rule = rule}}, 0).as<wire::database_answer>();
    open(name);
  }
  void put(const std::string& key, const std::string& value) {
    EXPECT_TRUE(ask(wire::put_request{.key = key, .value = value}).as<wire::put_answer>().written);
  }
  std::string get(const std::string& key, const service::point& at = service::newest{}) {
    const auto is = ask(wire::get_request{.key = key, .at = at}).as<wire::get_answer>();
    return is.found ? is.value : "(none)";
  }
  version tag(const std::string& name = {}) {
    return ask(wire::tag_request{.name = name}).as<wire::version_answer>().version;
  }

  std::uint32_t handle = 0;  ///< of the database that was opened last

 private:
  std::unique_ptr<wire::client_endpoint> endpoint_;
};

class UcxDoor : public ::testing::Test {
 protected:
  ~UcxDoor() override { stop(); }

  void start(service::service_options options = {}) {
    stop();
    options.data = folder_ / "data";
    options.limits.free_disk_bytes = 0;
    service_ = std::make_unique<service::service>(std::move(options));
    door_ = std::make_unique<ucx_door>(*service_, door_options());
    door_->start();
  }
  void stop() {
    if (door_) door_->stop(1s);
    door_.reset();
    service_.reset();
  }
  [[nodiscard]] virtual ucx_door_options door_options() {
    return {.host = "127.0.0.1",
            .port = 0,
            .token = job_token,
            .transports = ucx_transports::shared_memory,
            .server_name = "a test"};
  }
  [[nodiscard]] client connect(const std::string& user = {}, const std::string& secret = {},
                               const std::string& group = {}) {
    return client(door_->port(), user, secret, group);
  }
  /// Waits for what another thread does after an answer has left.
  template <typename Condition>
  static bool eventually(Condition holds) {
    for (int i = 0; i < 3000; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }

  icecore::testing::scratch folder_;
  std::unique_ptr<service::service> service_;
  std::unique_ptr<ucx_door> door_;
};

}  // namespace icecore::doors::testing
