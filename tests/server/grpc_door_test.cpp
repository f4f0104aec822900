// The gRPC door itself: limits, connections, users, TLS, health, what observers are told.
#include <grpcpp/security/tls_credentials_options.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

#include "grpc_certificates.hpp"
#include "grpc_support.hpp"

namespace icecore::doors {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;

class GrpcDoor : public door_fixture {
 protected:
  void log_in(const std::string& user, const std::string& password) {
    v1::LogInRequest request;
    request.set_user(user);
    request.set_password(password);
    v1::LogInResponse response;
    token_.clear();
    ASSERT_EQ(call(*users_, &v1::Users::StubInterface::LogIn, request, response), errc{}) << status_.error_message();
    token_ = response.token();
  }
  errc try_get(const std::string& database, const std::string& key) {
    v1::GetRequest request;
    request.set_database(database);
    request.set_key(key);
    v1::GetResponse response;
    return call(*store_, &v1::Store::StubInterface::Get, request, response);
  }
  errc try_put(const std::string& database, const std::string& key, const std::string& value = "v") {
    v1::PutRequest request;
    request.set_database(database);
    request.set_key(key);
    request.set_value(value);
    v1::PutResponse response;
    return call(*store_, &v1::Store::StubInterface::Put, request, response);
  }
  void add_user(const std::string& name, std::optional<std::string> password) {
    v1::AddUserRequest request;
    request.set_name(name);
    if (password) request.set_password(*password);
    v1::Nothing nothing;
    ASSERT_EQ(call(*users_, &v1::Users::StubInterface::AddUser, request, nothing), errc{}) << status_.error_message();
  }
  /// A role `name` for keys ["m", "n") of `database`, given to `user`.
  void allow(const std::string& user, const std::string& name, const std::string& database, bool writes) {
    v1::Role role;
    role.set_name(name);
    v1::Permission& permission = *role.add_permissions();
    permission.set_database(database);
    permission.mutable_keys()->set_from("m");
    permission.mutable_keys()->set_to("n");
    permission.set_read(true);
    permission.set_write(writes);
    v1::Nothing nothing;
    ASSERT_EQ(call(*users_, &v1::Users::StubInterface::SetRole, role, nothing), errc{}) << status_.error_message();
    v1::GrantRoleRequest grant;
    grant.set_user(user);
    grant.set_role(name);
    ASSERT_EQ(call(*users_, &v1::Users::StubInterface::Grant, grant, nothing), errc{}) << status_.error_message();
  }
  void start_with_users(grpc_door_options door = {}) {
    service::service_options options;
    options.users = true;
    start(options, std::move(door));
    service_->users().ensure_root("the root's password");
  }
};

TEST_F(GrpcDoor, a_request_may_have_as_many_bytes_as_the_limit_says) {
  service::service_options options;
  options.limits.request_bytes = 10'000;
  start(options);
  create("db");
  v1::PutRequest request;
  request.set_database("db");
  request.set_key("a");
  request.set_value(std::string(9'000, 'v'));
  request.set_value(std::string(9'000 + 10'000 - request.ByteSizeLong(), 'v'));
  ASSERT_EQ(request.ByteSizeLong(), 10'000U);
  v1::PutResponse response;
  EXPECT_EQ(call(*store_, &v1::Store::StubInterface::Put, request, response), errc{}) << status_.error_message();
  request.mutable_value()->push_back('v');
  call(*store_, &v1::Store::StubInterface::Put, request, response);
  EXPECT_EQ(status_.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(get("db", "a").size(), request.value().size() - 1);
}

TEST_F(GrpcDoor, requests_in_flight_are_limited) {
  service::service_options options;
  options.limits.in_flight_bytes = 100'000;
  start(options);
  create("db");
  EXPECT_EQ(try_put("db", "a", std::string(30'000, 'v')), errc{});
  EXPECT_EQ(try_put("db", "a", std::string(101'000, 'v')), errc::limit_reached);
  EXPECT_EQ(status_.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status_.error_message(), HasSubstr("100000"));
  EXPECT_TRUE(eventually([&] { return service_->in_flight_bytes().used() == 0; }));
}

TEST_F(GrpcDoor, so_many_connections_are_served_as_the_limit_says) {
  service::service_options options;
  options.limits.connections = 3;
  start(options);
  const auto is_served = [&](const std::shared_ptr<grpc::Channel>& channel) {
    const auto stub = v1::Server::NewStub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    v1::StatusResponse response;
    return stub->Status(&context, v1::StatusRequest(), &response).ok();
  };
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < 3; ++i) {
    channels.push_back(new_channel(grpc::InsecureChannelCredentials()));
    EXPECT_TRUE(is_served(channels.back()));
  }
  EXPECT_EQ(service_->connections().used(), 3U);
  EXPECT_FALSE(is_served(new_channel(grpc::InsecureChannelCredentials())));
  EXPECT_GE(service_->connections().refused(), 1U);
  channels.pop_back();
  EXPECT_TRUE(eventually([&] { return is_served(new_channel(grpc::InsecureChannelCredentials())); }));
  channels.clear();
  EXPECT_TRUE(eventually([&] { return service_->connections().used() == 0; }));
}

TEST_F(GrpcDoor, a_deadline_that_has_passed_ends_the_call) {
  create("db");
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() - std::chrono::seconds(1));
  v1::PutRequest request;
  request.set_database("db");
  request.set_key("a");
  v1::PutResponse response;
  EXPECT_EQ(store_->Put(&context, request, &response).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(get("db", "a"), "(none)");
}

TEST_F(GrpcDoor, an_observer_is_told_of_each_call_with_its_request_and_user) {
  const auto observer = std::make_shared<remembering_observer>();
  grpc_door_options door;
  door.observer = observer;
  start_with_users(door);
  log_in("root", "the root's password");
  grpc::ClientContext context;
  authorize(context);
  context.AddMetadata("x-request-id", "trace-7");
  v1::GetRequest request;
  request.set_database("nothing");
  v1::GetResponse response;
  store_->Get(&context, request, &response);
  EXPECT_TRUE(eventually([&] { return observer->all().size() == 2; }));
  const auto all = observer->all();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].method, "Users.LogIn");
  EXPECT_EQ(all[0].status, 0);
  EXPECT_EQ(all[1].method, "Store.Get");
  EXPECT_EQ(all[1].status, static_cast<int>(grpc::StatusCode::PERMISSION_DENIED));
  EXPECT_EQ(all[1].request, "trace-7");
  EXPECT_EQ(all[1].user, "root");
}

TEST_F(GrpcDoor, nobody_is_served_without_a_token_where_there_are_users) {
  start_with_users();
  EXPECT_EQ(try_get("db", "a"), errc::unauthenticated);
  EXPECT_EQ(status_.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  token_ = "wrong";
  EXPECT_EQ(try_get("db", "a"), errc::unauthenticated);
  v1::LogInRequest request;
  request.set_user("root");
  request.set_password("wrong");
  v1::LogInResponse response;
  token_.clear();
  EXPECT_EQ(call(*users_, &v1::Users::StubInterface::LogIn, request, response), errc::unauthenticated);
  request.set_password(std::string(5000, 'p'));
  EXPECT_EQ(call(*users_, &v1::Users::StubInterface::LogIn, request, response), errc::limit_reached);

  log_in("root", "the root's password");
  create("db");
  EXPECT_EQ(try_put("db", "a"), errc{});
  v1::Nothing nothing;
  EXPECT_EQ(call(*users_, &v1::Users::StubInterface::LogOut, v1::LogOutRequest(), nothing), errc{});
  EXPECT_EQ(try_get("db", "a"), errc::unauthenticated);
}

TEST_F(GrpcDoor, a_role_opens_a_range_of_keys_and_no_more) {
  start_with_users();
  log_in("root", "the root's password");
  create("db");
  put("db", "a", "secret");
  put("db", "m1", "shown");
  const std::uint64_t last = put("db", "z", "secret");
  add_user("ann", "ann's password");
  allow("ann", "middle", "db", false);
  log_in("ann", "ann's password");

  EXPECT_EQ(try_get("db", "m1"), errc{});
  EXPECT_EQ(try_get("db", "a"), errc::denied);
  const std::string there = status_.error_message();
  EXPECT_EQ(try_get("other", "a"), errc::denied);
  EXPECT_EQ(there.size() + 3, status_.error_message().size()) << "one answer but for the name: " << there;
  EXPECT_EQ(try_put("db", "m1"), errc::denied);

  v1::GetManyRequest many;
  many.set_database("db");
  many.add_keys("m1");
  many.add_keys("z");
  v1::GetManyResponse got;
  EXPECT_EQ(call(*store_, &v1::Store::StubInterface::GetMany, many, got), errc::denied);
  EXPECT_EQ(got.values_size(), 0);

  v1::WriteRequest writing;  // a condition shows what is there, so it needs the right to read
  writing.set_database("db");
  writing.add_conditions()->set_key("a");
  v1::WriteResponse written;
  EXPECT_EQ(call(*store_, &v1::Store::StubInterface::Write, writing, written), errc::denied);

  const auto scan_ends = [&](const std::string& from, const std::string& to) {
    v1::ScanRequest request;
    request.set_database("db");
    request.mutable_bounds()->set_from(from);
    request.mutable_bounds()->set_to(to);
    grpc::ClientContext context;
    authorize(context);
    const auto reader = store_->Scan(&context, request);
    const std::size_t rows = read_all(reader).size();
    EXPECT_EQ(rows, status_.ok() ? 1U : 0U);
    return code_of(context);
  };
  EXPECT_EQ(scan_ends("m", "n"), errc{});
  EXPECT_EQ(scan_ends("a", "n"), errc::denied);
  const auto ends = [&](auto& reader, grpc::ClientContext& context) {
    v1::Rows rows;
    EXPECT_FALSE(reader->Read(&rows));
    reader->Finish();
    return code_of(context);
  };
  {
    v1::WatchRequest request;
    request.set_database("db");
    grpc::ClientContext context;
    authorize(context);
    const auto reader = store_->Watch(&context, request);
    EXPECT_EQ(ends(reader, context), errc::denied);
  }
  {
    v1::HistoryRequest request;
    request.set_database("db");
    request.set_key("a");
    grpc::ClientContext context;
    authorize(context);
    const auto reader = store_->History(&context, request);
    EXPECT_EQ(ends(reader, context), errc::denied);
  }
  {
    v1::ChangesRequest request;
    request.set_database("db");
    grpc::ClientContext context;
    authorize(context);
    const auto reader = store_->Changes(&context, request);
    EXPECT_EQ(ends(reader, context), errc::denied);
  }
  {
    v1::DiffRequest request;
    request.set_database("db");
    request.mutable_after()->set_version(last);
    grpc::ClientContext context;
    authorize(context);
    const auto reader = store_->Diff(&context, request);
    EXPECT_EQ(ends(reader, context), errc::denied);
  }
  {
    v1::LoadResponse response;
    grpc::ClientContext context;
    authorize(context);
    const auto writer = store_->Load(&context, &response);
    v1::LoadRequest request;
    request.set_database("db");
    add_row(*request.mutable_rows(), "m2", "v");
    writer->Write(request);
    writer->WritesDone();
    EXPECT_FALSE(writer->Finish().ok());
    EXPECT_EQ(code_of(context), errc::denied);
  }
  v1::TagRequest tagging;
  tagging.set_database("db");
  v1::TagResponse tagged;
  EXPECT_EQ(call(*versions_, &v1::Versions::StubInterface::Tag, tagging, tagged), errc::denied);
  v1::CompactRequest compacting;
  compacting.set_database("db");
  v1::CompactResponse compacted;
  EXPECT_EQ(call(*versions_, &v1::Versions::StubInterface::Compact, compacting, compacted), errc::denied);
  v1::ListUsersResponse listed;
  EXPECT_EQ(call(*users_, &v1::Users::StubInterface::List, v1::ListUsersRequest(), listed), errc::denied);
  v1::SnapshotRequest snapshot;
  snapshot.set_to((folder_ / "snapshot").string());
  v1::SnapshotResponse response;
  EXPECT_EQ(call(*server_, &v1::Server::StubInterface::Snapshot, snapshot, response), errc::denied);
}

TEST_F(GrpcDoor, users_are_managed) {
  start_with_users();
  log_in("root", "the root's password");
  add_user("ann", "first password");
  allow("ann", "middle", "db*", true);
  v1::ListUsersResponse listed;
  ASSERT_EQ(call(*users_, &v1::Users::StubInterface::List, v1::ListUsersRequest(), listed), errc{});
  EXPECT_EQ(listed.users_size(), 2);
  const auto middle = std::ranges::find(listed.roles(), "middle", [](const v1::Role& r) { return r.name(); });
  ASSERT_NE(middle, listed.roles().end());
  EXPECT_EQ(middle->permissions(0).keys().from(), "m");
  EXPECT_TRUE(middle->permissions(0).write());
  v1::SetPasswordRequest changing;
  changing.set_name("ann");
  changing.set_password("second password");
  v1::Nothing nothing;
  ASSERT_EQ(call(*users_, &v1::Users::StubInterface::SetPassword, changing, nothing), errc{});
  v1::RoleRequest removing_role;
  removing_role.set_name("middle");
  ASSERT_EQ(call(*users_, &v1::Users::StubInterface::RemoveRole, removing_role, nothing), errc{});
  log_in("ann", "second password");
  log_in("root", "the root's password");
  v1::UserRequest removing;
  removing.set_name("ann");
  ASSERT_EQ(call(*users_, &v1::Users::StubInterface::RemoveUser, removing, nothing), errc{});
  v1::LogInRequest request;
  request.set_user("ann");
  request.set_password("second password");
  v1::LogInResponse response;
  EXPECT_EQ(call(*users_, &v1::Users::StubInterface::LogIn, request, response), errc::unauthenticated);
}

// ---- TLS ----

std::shared_ptr<grpc::ChannelCredentials> client_credentials(const std::string& authority, const std::string& key = {},
                                                             const std::string& certificate = {}) {
  return grpc::SslCredentials({.pem_root_certs = authority, .pem_private_key = key, .pem_cert_chain = certificate});
}

/// A handshake with OpenSSL's own client: whether this version of TLS is taken.
bool handshakes(std::uint16_t port, int version) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&where), sizeof where), 0);
  SSL_CTX* const settings = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_min_proto_version(settings, version);
  SSL_CTX_set_max_proto_version(settings, version);
  const std::array<unsigned char, 3> h2{2, 'h', '2'};
  SSL_CTX_set_alpn_protos(settings, h2.data(), h2.size());
  SSL* const connection = SSL_new(settings);
  SSL_set_fd(connection, socket);
  const bool ok = SSL_connect(connection) == 1;
  SSL_free(connection);
  SSL_CTX_free(settings);
  ::close(socket);
  return ok;
}

class GrpcTls : public GrpcDoor {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ / "tls");
    authority_ = test_authority();
    write("authority.pem", authority_.certificate_text());
    server_certificate_ = authority_.sign("localhost");
    write("server.pem", server_certificate_.certificate);
    write("server.key", server_certificate_.key);
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / "tls" / name, std::ios::binary) << text;
  }
  [[nodiscard]] grpc_door_options options(grpc_tls::clients from_clients = grpc_tls::clients::no_certificate) const {
    grpc_door_options door;
    door.tls = {.certificate = (folder_ / "tls/server.pem").string(),
                .key = (folder_ / "tls/server.key").string(),
                .client_authorities =
                    from_clients == grpc_tls::clients::no_certificate ? "" : (folder_ / "tls/authority.pem").string(),
                .from_clients = from_clients,
                .reload_interval = std::chrono::seconds(1)};
    return door;
  }
  grpc::StatusCode status_of_a_call() {
    v1::StatusResponse response;
    call(*server_, &v1::Server::StubInterface::Status, v1::StatusRequest(), response);
    return status_.error_code();
  }

  test_authority authority_;
  signed_certificate server_certificate_;
};

TEST_F(GrpcTls, tls_1_3_alone_is_spoken) {
  start({}, options());
  connect(client_credentials(authority_.certificate_text()));
  EXPECT_EQ(status_of_a_call(), grpc::StatusCode::OK) << status_.error_message();
  EXPECT_TRUE(handshakes(door_->port(), TLS1_3_VERSION));
  EXPECT_FALSE(handshakes(door_->port(), TLS1_2_VERSION));
  connect(grpc::InsecureChannelCredentials());
  EXPECT_EQ(status_of_a_call(), grpc::StatusCode::UNAVAILABLE);
  connect(client_credentials(test_authority().certificate_text()));
  EXPECT_EQ(status_of_a_call(), grpc::StatusCode::UNAVAILABLE) << "an authority that the client does not know";
}

TEST_F(GrpcTls, a_client_certificate_names_the_user) {
  start_with_users(options(grpc_tls::clients::may_show));
  connect(client_credentials(authority_.certificate_text()));
  EXPECT_EQ(status_of_a_call(), grpc::StatusCode::UNAUTHENTICATED);
  log_in("root", "the root's password");
  create("db");
  add_user("machine", std::nullopt);
  allow("machine", "middle", "db", true);
  token_.clear();
  const signed_certificate machine = authority_.sign("machine");
  connect(client_credentials(authority_.certificate_text(), machine.key, machine.certificate));
  EXPECT_EQ(try_put("db", "m1"), errc{}) << status_.error_message();
  EXPECT_EQ(try_put("db", "a"), errc::denied);
  const signed_certificate stranger = authority_.sign("stranger");
  connect(client_credentials(authority_.certificate_text(), stranger.key, stranger.certificate));
  EXPECT_EQ(try_get("db", "m1"), errc::unauthenticated);
  const signed_certificate forged = test_authority().sign("machine");
  connect(client_credentials(authority_.certificate_text(), forged.key, forged.certificate));
  EXPECT_NE(status_of_a_call(), grpc::StatusCode::OK);
}

TEST_F(GrpcTls, a_certificate_can_be_required) {
  start({}, options(grpc_tls::clients::must_show));
  connect(client_credentials(authority_.certificate_text()));
  EXPECT_EQ(status_of_a_call(), grpc::StatusCode::UNAVAILABLE);
  const signed_certificate own = authority_.sign("anybody");
  connect(client_credentials(authority_.certificate_text(), own.key, own.certificate));
  EXPECT_EQ(status_of_a_call(), grpc::StatusCode::OK) << status_.error_message();
}

TEST_F(GrpcTls, certificates_are_read_again_when_they_change) {
  start({}, options());
  const test_authority later;
  const signed_certificate renewed = later.sign("localhost");
  write("server.key", renewed.key);
  write("server.pem", renewed.certificate);
  EXPECT_TRUE(eventually([&] {
    connect(client_credentials(later.certificate_text()));
    return status_of_a_call() == grpc::StatusCode::OK;
  }));
}

TEST_F(GrpcTls, files_that_are_no_certificate_and_key_are_refused_at_the_start) {
  const auto refused = [&](const grpc_door_options& with) {
    try {
      start({}, with);
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::invalid_argument);
      return std::string(e.what());
    }
    return std::string("started");
  };
  grpc_door_options door = options();
  door.tls.key = (folder_ / "tls/nothing").string();
  EXPECT_THAT(refused(door), HasSubstr("tls/nothing: No such file"));
  door = options();
  door.tls.key = door.tls.certificate;
  EXPECT_THAT(refused(door), HasSubstr("no private key"));
  write("other.key", authority_.sign("other").key);
  door.tls.key = (folder_ / "tls/other.key").string();
  EXPECT_THAT(refused(door), HasSubstr("is not that of the certificate"));
  door = options(grpc_tls::clients::must_show);
  door.tls.client_authorities.clear();
  EXPECT_THAT(refused(door), HasSubstr("no client authorities"));
}

}  // namespace
}  // namespace icecore::doors
