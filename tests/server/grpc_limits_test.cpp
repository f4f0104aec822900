// What gRPC's door allows to who has not said enough yet: half requests, slow ones, strangers, too many connections.
#include <sys/resource.h>
#include <unistd.h>

#include <grpc/health/v1/health.grpc.pb.h>

#include "base/memory/sanitizer.hpp"
#include "doors/grpc/connection_users.hpp"
#include "doors/grpc/library_log.hpp"
#include "doors/grpc/listener.hpp"
#include "grpc_slow_client.hpp"
#include "grpc_support.hpp"

namespace icecore::doors {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class GrpcLimits : public door_fixture {
 protected:
  void start_with(std::chrono::milliseconds read_limit) {
    service::service_options options;
    options.limits.read_limit = read_limit;
    start(options);
    create("db");
  }
  static std::string put_request(const std::string& key) {
    v1::PutRequest request;
    request.set_database("db");
    request.set_key(key);
    request.set_value(std::string(100, 'v'));
    return slow_client::message(request.SerializeAsString());
  }
  void others_do_not_notice() {
    put("db", "other", "v");
    EXPECT_EQ(get("db", "other"), "v");
  }
  void start_with_users(service::limits limits) {
    service::service_options options;
    options.users = true;
    options.limits = limits;
    start(options);
    service_->users().ensure_root("the root's password");
  }
  errc log_in(const std::string& user, const std::string& password) {
    v1::LogInRequest request;
    request.set_user(user);
    request.set_password(password);
    v1::LogInResponse response;
    token_.clear();
    const errc code = call(*users_, &v1::Users::StubInterface::LogIn, request, response);
    token_ = response.token();
    return code;
  }
};

TEST_F(GrpcLimits, half_a_request_is_refused_after_the_read_limit_and_others_do_not_notice) {
  start_with(300ms);
  slow_client half(door_->port());
  half.greet();
  half.begin("/icecore.v1.Store/Put");
  half.send_data(put_request("half").substr(0, 20));
  others_do_not_notice();
  EXPECT_TRUE(half.has_ended(30s));
  EXPECT_EQ(door_->counted().closed_unread, 1U);
  others_do_not_notice();
  EXPECT_EQ(get("db", "half"), "(none)");
  EXPECT_TRUE(eventually([&] { return service_->in_flight_bytes().used() == 0; }));
}

TEST_F(GrpcLimits, headers_without_a_message_are_refused_after_the_read_limit) {
  start_with(100ms);
  slow_client half(door_->port());
  half.greet();
  half.begin("/icecore.v1.Store/Scan");
  EXPECT_TRUE(half.has_ended(30s));
  EXPECT_EQ(door_->counted().closed_unread, 1U);
}

TEST_F(GrpcLimits, a_request_that_comes_byte_by_byte_is_refused_after_the_read_limit) {
  start_with(300ms);
  slow_client slow(door_->port());
  slow.greet();
  slow.begin("/icecore.v1.Store/Put");
  const std::string request = put_request("slow");
  std::size_t sent = 0;
  while (sent < request.size() && !slow.has_ended(50ms)) slow.send_data(request.substr(sent++, 1));
  EXPECT_TRUE(slow.has_ended(30s));
  EXPECT_EQ(door_->counted().closed_unread, 1U);
  EXPECT_EQ(get("db", "slow"), "(none)");
  others_do_not_notice();
}

TEST_F(GrpcLimits, a_slow_request_within_the_read_limit_is_answered) {
  start_with(60s);
  slow_client slow(door_->port());
  slow.greet();
  slow.begin("/icecore.v1.Store/Put");
  const std::string request = put_request("slow");
  slow.send_data(request.substr(0, 20));
  EXPECT_FALSE(slow.has_ended(200ms));
  slow.send_data(request.substr(20), true);
  EXPECT_TRUE(slow.has_ended(30s));
  EXPECT_EQ(get("db", "slow"), std::string(100, 'v'));
  EXPECT_EQ(door_->counted().closed_unread, 0U);
}

TEST_F(GrpcLimits, who_connects_and_is_silent_is_closed_after_the_read_limit) {
  start_with(300ms);
  slow_client silent(door_->port());
  EXPECT_TRUE(silent.has_ended(30s));
  slow_client half(door_->port());
  half.send("PRI * HTTP");
  EXPECT_TRUE(half.has_ended(30s));
  others_do_not_notice();
}

TEST_F(GrpcLimits, a_user_has_as_many_connections_as_the_limit_says) {
  service::limits limits;
  limits.connections_per_user = 2;
  start_with_users(limits);
  ASSERT_EQ(log_in("root", "the root's password"), errc{});
  create("db");  // the first connection
  const auto is_served = [&](const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    authorize(context);
    v1::StatusResponse response;
    const grpc::Status status = v1::Server::NewStub(channel)->Status(&context, v1::StatusRequest(), &response);
    if (!status.ok()) {
      EXPECT_EQ(code_of(context), errc::limit_reached);
      EXPECT_THAT(status.error_message(), HasSubstr("connections_per_user"));
    }
    return status.ok();
  };
  auto second = new_channel(grpc::InsecureChannelCredentials());
  EXPECT_TRUE(is_served(second));
  EXPECT_TRUE(is_served(second)) << "the second call of the same connection";
  const auto third = new_channel(grpc::InsecureChannelCredentials());
  EXPECT_FALSE(is_served(third));
  EXPECT_EQ(door_->counted().refused_of_user, 1U);
  v1::AddUserRequest ann;
  ann.set_name("ann");
  ann.set_password("the password of ann");
  v1::Nothing nothing;
  ASSERT_EQ(call(*users_, &v1::Users::StubInterface::AddUser, ann, nothing), errc{});
  const std::string of_root = token_;
  ASSERT_EQ(log_in("ann", "the password of ann"), errc{});
  EXPECT_TRUE(is_served(third)) << "another user has connections of her own";
  token_ = of_root;
  second.reset();
  EXPECT_TRUE(eventually([&] { return is_served(third); }));
}

TEST_F(GrpcLimits, connections_are_not_counted_by_user_without_a_limit) {
  start_with_users({});
  ASSERT_EQ(log_in("root", "the root's password"), errc{});
  for (int i = 0; i < 5; ++i) {
    grpc::ClientContext context;
    authorize(context);
    v1::StatusResponse response;
    const auto stub = v1::Server::NewStub(new_channel(grpc::InsecureChannelCredentials()));
    EXPECT_TRUE(stub->Status(&context, v1::StatusRequest(), &response).ok());
  }
  EXPECT_EQ(door_->counted().refused_of_user, 0U);
}

TEST(Listener, says_that_it_has_no_descriptor_left) {
  if constexpr (memory_is_watched) GTEST_SKIP() << "without a descriptor, the sanitizer takes sound objects for broken";
  service::gauge connections("connections", 10);
  connection_users users(0);
  const int next = ::dup(0);
  ::close(next);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit one_more{.rlim_cur = static_cast<rlim_t>(next) + 1, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &one_more), 0);
  std::string said;
  try {
    const listener made("127.0.0.1", 0, connections, users, [](int socket) { ::close(socket); });
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::io);
    said = e.message();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(said, HasSubstr("descriptor"));
}

TEST(ConnectionUsers, read_the_address_in_what_grpc_calls_a_peer) {
  EXPECT_EQ(connection_users::address_of("ipv4:127.0.0.1:4711"), "127.0.0.1:4711");
  EXPECT_EQ(connection_users::address_of("ipv6:%5B::1%5D:4711"), "::1:4711");
  EXPECT_EQ(connection_users::address_of("ipv6:[fe80::1%25eth0]:4711"), "fe80::1:4711");
  EXPECT_EQ(connection_users::address_of("ipv6:%5Bfe80::1%25eth0%5D:4711"), "fe80::1:4711");
}

TEST(ConnectionUsers, an_address_that_comes_again_begins_anew) {
  connection_users users(1);
  users.opened("a:1", 1);
  users.use("ipv4:a:1", "ann");
  users.opened("a:1", 2);  // the first is closed, which nobody has noticed
  users.use("ipv4:a:1", "ann");
  users.closed("a:1", 1);
  users.opened("a:2", 3);
  EXPECT_THROW(users.use("ipv4:a:2", "ann"), error) << "the second holds it still";
  users.closed("a:1", 2);
  users.use("ipv4:a:2", "ann");
  EXPECT_EQ(users.refused(), 1U);
}

TEST_F(GrpcLimits, headers_and_log_ins_have_as_many_bytes_as_the_limit_says) {
  service::limits limits;
  limits.before_login_bytes = 2000;
  start_with_users(limits);
  const auto code_with = [&](std::size_t header_bytes) {
    grpc::ClientContext context;
    context.AddMetadata("x-request-id", std::string(header_bytes, 'x'));
    v1::GetResponse response;
    return store_->Get(&context, v1::GetRequest(), &response).error_code();
  };
  EXPECT_EQ(code_with(1000), grpc::StatusCode::UNAUTHENTICATED);
  v1::LogInRequest request;
  request.set_user("root");
  request.set_password(std::string(1900, 'p'));
  request.set_password(std::string(1900 + 2000 - request.ByteSizeLong(), 'p'));
  ASSERT_EQ(request.ByteSizeLong(), 2000U);
  v1::LogInResponse response;
  EXPECT_EQ(call(*users_, &v1::Users::StubInterface::LogIn, request, response), errc::unauthenticated)
      << status_.error_code() << status_.error_message();
  request.mutable_password()->push_back('p');
  EXPECT_EQ(call(*users_, &v1::Users::StubInterface::LogIn, request, response), errc::limit_reached);
  EXPECT_THAT(status_.error_message(), HasSubstr("before_login_bytes is 2000"));
  // Last: gRPC itself refuses these, and may end the connection with them.
  EXPECT_EQ(code_with(2000), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(GrpcLimits, a_stranger_is_refused_before_his_message) {
  start_with_users({});
  slow_client stranger(door_->port());
  stranger.greet();
  stranger.begin("/icecore.v1.Store/Put");
  EXPECT_TRUE(stranger.has_ended(30s)) << "the message was not asked for";
  EXPECT_EQ(door_->counted().closed_unread, 0U);
}

TEST_F(GrpcLimits, strangers_who_cancel_at_once_harm_nobody) {
  start_with_users({});
  std::string calls;
  for (int stream = 1; stream < 128; stream += 2) {
    calls += slow_client::headers("/icecore.v1.Leases/KeepAlive", stream);
    calls += slow_client::frame(3, 0, stream, std::string("\0\0\0\x08", 4));  // RST_STREAM
  }
  for (int i = 0; i < 30; ++i) {
    slow_client stranger(door_->port());
    stranger.greet();
    stranger.send(calls);
  }
  ASSERT_EQ(log_in("root", "the root's password"), errc{});
  create("db");
  EXPECT_TRUE(eventually([&] { return service_->in_flight_bytes().used() == 0; }));
  others_do_not_notice();
}

TEST_F(GrpcLimits, who_goes_while_calls_are_refused_after_the_read_limit_harms_nobody) {
  start_with(100ms);
  std::string calls;
  for (int stream = 1; stream < 128; stream += 2) calls += slow_client::headers("/grpc.health.v1.Health/Watch", stream);
  for (int i = 0; i < 10; ++i) {
    slow_client first(door_->port());
    slow_client second(door_->port());
    for (slow_client* const one : {&first, &second}) {
      one->greet();
      one->send(calls);
    }
    EXPECT_TRUE(first.has_ended(30s));
  }
  EXPECT_TRUE(eventually([&] { return service_->in_flight_bytes().used() == 0; }));
  others_do_not_notice();
}

TEST_F(GrpcLimits, what_the_libraries_say_goes_to_the_log) {
  std::mutex mutex;
  std::string said;
  {
    const library_log lines([&](bool is_error, std::string_view text) {
      const std::lock_guard lock(mutex);
      if (is_error) said += text;
    });
    start_with(30s);
    v1::GetRequest request;
    request.set_key("a");
    std::string bytes = request.SerializeAsString();
    bytes += std::string("\x0a\x02\xff\xff", 4);  // the database's name is no UTF-8
    slow_client client(door_->port());
    client.greet();
    client.begin("/icecore.v1.Store/Get");
    client.send_data(slow_client::message(bytes), true);
    EXPECT_TRUE(client.has_ended(30s));
    door_->stop(10s);
  }
  EXPECT_THAT(said, HasSubstr("GetRequest.database"));
}

TEST_F(GrpcLimits, health_is_told_to_everybody_and_ends_with_the_server) {
  using grpc::health::v1::HealthCheckResponse;
  start_with_users({});
  const auto health = grpc::health::v1::Health::NewStub(channel_);
  const auto asked = [&](const std::string& service, HealthCheckResponse& response) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    return health->Check(&context, request, &response).error_code();
  };
  HealthCheckResponse response;
  EXPECT_EQ(asked("", response), grpc::StatusCode::OK);
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  EXPECT_EQ(asked("icecore.v1.Store", response), grpc::StatusCode::OK);
  EXPECT_EQ(asked("another.Service", response), grpc::StatusCode::NOT_FOUND);
  grpc::ClientContext context;
  const auto watch = health->Watch(&context, grpc::health::v1::HealthCheckRequest());
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  door_->stop(10s);
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(watch->Read(&response));
}

}  // namespace
}  // namespace icecore::doors
