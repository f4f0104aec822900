// What callers who have not logged in may take of the server: log-ins, health checks, reflection.
#include <grpc/health/v1/health.grpc.pb.h>
#include <grpc/reflection/v1/reflection.grpc.pb.h>
#include <grpc/reflection/v1alpha/reflection.grpc.pb.h>

#include <google/protobuf/descriptor.pb.h>

#include "grpc_slow_client.hpp"
#include "grpc_support.hpp"

namespace icecore::doors {
namespace {

using namespace std::chrono_literals;
using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::Contains;
using ::testing::HasSubstr;

class GrpcStrangers : public door_fixture {
 protected:
  void start_with(const service::limits& limits) {
    service::service_options options;
    options.users = true;
    options.limits = limits;
    start(options);
    service_->users().ensure_root("the root's password");
    token_ = service_->users().log_in("root", "the root's password").text;
    create("db");
  }
  void users_do_not_notice() {
    put("db", "a", "v");
    EXPECT_EQ(get("db", "a"), "v");
  }
  grpc::StatusCode log_in(const std::string& name, const std::string& password) {
    v1::LogInRequest request;
    request.set_user(name);
    request.set_password(password);
    v1::LogInResponse response;
    call(*users_, &v1::Users::StubInterface::LogIn, request, response);
    return status_.error_code();
  }
};

TEST_F(GrpcStrangers, a_health_check_has_as_many_bytes_as_the_limit_says) {
  service::limits limits;
  limits.before_login_bytes = 2000;
  start_with(limits);
  const auto health = Health::NewStub(channel_);
  const auto check = [&](std::size_t message_bytes) {
    HealthCheckRequest request;
    request.set_service(std::string(message_bytes - 3, 's'));
    EXPECT_EQ(request.ByteSizeLong(), message_bytes);
    HealthCheckResponse response;
    grpc::ClientContext context;
    status_ = health->Check(&context, request, &response);
    return status_.error_code();
  };
  EXPECT_EQ(check(2000), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(check(2001), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status_.error_message(), HasSubstr("before_login_bytes is 2000"));
  HealthCheckRequest request;
  request.set_service(std::string(2001, 's'));
  grpc::ClientContext context;
  const auto watch = health->Watch(&context, request);
  HealthCheckResponse response;
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(GrpcStrangers, health_watches_have_a_limit_of_their_own) {
  service::limits limits;
  limits.watches = 1;
  limits.health_watches = 2;
  start_with(limits);
  const auto health = Health::NewStub(channel_);
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<HealthCheckResponse>>> watches;
  HealthCheckResponse response;
  const auto watch = [&] {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    watches.push_back(health->Watch(contexts.back().get(), HealthCheckRequest()));
    return watches.back()->Read(&response);
  };
  EXPECT_TRUE(watch());
  EXPECT_TRUE(watch());
  EXPECT_FALSE(watch());
  EXPECT_EQ(watches.back()->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(eventually([&] { return service_->in_flight_bytes().used() == 0; })) << "health takes what users share";
  EXPECT_EQ(service_->watches().used(), 0U);
  {
    v1::WatchRequest request;
    request.set_database("db");
    grpc::ClientContext context;
    authorize(context);
    const auto reader = store_->Watch(&context, request);
    v1::Rows rows;
    EXPECT_TRUE(reader->Read(&rows)) << "the one that users may have";
    context.TryCancel();
    reader->Finish();
  }
  contexts.front()->TryCancel();
  watches.front()->Finish();
  EXPECT_TRUE(eventually([&] { return watch(); })) << "the place of the one that has ended";
  for (const auto& context : contexts) context->TryCancel();
}

TEST_F(GrpcStrangers, all_together_have_as_many_bytes_as_the_limit_says) {
  service::limits limits;
  limits.before_login_bytes = 1024;
  limits.strangers_bytes = 3 * std::uint64_t{2048};
  start_with(limits);
  std::vector<std::unique_ptr<slow_client>> silent;
  for (int i = 0; i < 3; ++i) {
    silent.push_back(std::make_unique<slow_client>(door_->port()));
    silent.back()->greet();
    silent.back()->begin("/icecore.v1.Users/LogIn");
  }
  ASSERT_TRUE(eventually([&] { return service_->strangers_bytes().used() == limits.strangers_bytes; }));
  EXPECT_EQ(log_in("root", "the root's password"), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status_.error_message(), HasSubstr("limits.strangers_bytes"));
  users_do_not_notice();
  silent.pop_back();
  EXPECT_TRUE(eventually([&] { return log_in("root", "the root's password") == grpc::StatusCode::OK; }));
}

TEST_F(GrpcStrangers, a_flood_of_log_ins_is_refused_and_holds_up_no_limit) {
  service::limits limits;
  limits.read_limit = 100ms;
  start_with(limits);
  constexpr std::size_t flood = 400;
  struct attempt {
    grpc::ClientContext context;
    v1::LogInResponse response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::LogInResponse>> reader;
  };
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<attempt>> attempts;
  for (std::size_t i = 0; i < flood; ++i) {
    attempts.push_back(std::make_unique<attempt>());
    attempt& one = *attempts.back();
    v1::LogInRequest request;
    request.set_user("nobody" + std::to_string(i));
    request.set_password("wrong");
    one.reader = users_->AsyncLogIn(&one.context, request, &queue);
    one.reader->Finish(&one.response, &one.status, &one);
  }
  slow_client half(door_->port());
  half.greet();
  half.begin("/icecore.v1.Users/LogIn");
  EXPECT_TRUE(half.has_ended(30s));
  users_do_not_notice();
  std::size_t refused = 0;
  for (std::size_t i = 0; i < flood; ++i) {
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    const grpc::StatusCode code = static_cast<attempt*>(tag)->status.error_code();
    EXPECT_TRUE(code == grpc::StatusCode::UNAUTHENTICATED || code == grpc::StatusCode::RESOURCE_EXHAUSTED) << code;
    if (code == grpc::StatusCode::RESOURCE_EXHAUSTED) ++refused;
  }
  EXPECT_GT(refused, 0U);
  EXPECT_EQ(log_in("root", "the root's password"), grpc::StatusCode::OK);
}

TEST_F(GrpcStrangers, who_watches_health_and_does_not_read_is_cut) {
  grpc_door_options door;
  door.stalled_limit = 300ms;
  start({}, door);
  slow_client watching(door_->port());
  watching.greet_without_reading();
  watching.ask("/grpc.health.v1.Health/Watch", HealthCheckRequest());
  EXPECT_TRUE(watching.has_ended(30s));
  EXPECT_EQ(door_->counted().cut_stalled, 1U);
  EXPECT_TRUE(eventually([&] { return service_->health_watches().used() == 0; }));
}

// ---- Reflection ----

template <typename Service, typename Request, typename Response>
class questions {
 public:
  explicit questions(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(Service::NewStub(channel)), stream_(stub_->ServerReflectionInfo(&context_)) {}
  ~questions() {
    if (over_) return;
    context_.TryCancel();
    stream_->Finish();
  }
  questions(const questions&) = delete;
  questions& operator=(const questions&) = delete;

  Response services() {
    Request request;
    request.set_list_services("*");
    return ask(request);
  }
  Response symbol(const std::string& name) {
    Request request;
    request.set_file_containing_symbol(name);
    return ask(request);
  }
  Response ask(const Request& request) {
    Response response;
    EXPECT_TRUE(stream_->Write(request));
    EXPECT_TRUE(stream_->Read(&response));
    return response;
  }
  grpc::Status end_of_a_silent_one() {
    Response response;
    EXPECT_FALSE(stream_->Read(&response));
    over_ = true;
    return stream_->Finish();
  }

 private:
  std::unique_ptr<typename Service::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<Request, Response>> stream_;
  bool over_ = false;
};
using new_questions = questions<grpc::reflection::v1::ServerReflection, grpc::reflection::v1::ServerReflectionRequest,
                                grpc::reflection::v1::ServerReflectionResponse>;
using old_questions =
    questions<grpc::reflection::v1alpha::ServerReflection, grpc::reflection::v1alpha::ServerReflectionRequest,
              grpc::reflection::v1alpha::ServerReflectionResponse>;

template <typename Questions>
void tell_all(Questions& asked) {
  std::vector<std::string> names;
  const auto services = asked.services();
  for (const auto& service : services.list_services_response().service()) names.push_back(service.name());
  EXPECT_THAT(names, Contains("icecore.v1.Store"));
  EXPECT_THAT(names, Contains("icecore.v1.Leases"));
  EXPECT_THAT(names, Contains("grpc.health.v1.Health"));
  EXPECT_THAT(names, Contains("grpc.reflection.v1.ServerReflection"));
  EXPECT_THAT(names, Contains("grpc.reflection.v1alpha.ServerReflection"));
  for (const std::string& name : names) {
    const auto response = asked.symbol(name);
    ASSERT_GE(response.file_descriptor_response().file_descriptor_proto_size(), 1) << name;
    google::protobuf::FileDescriptorProto file;
    ASSERT_TRUE(file.ParseFromString(response.file_descriptor_response().file_descriptor_proto(0)));
    EXPECT_TRUE(name.starts_with(file.package() + ".")) << name << " is not in " << file.package();
  }
  EXPECT_EQ(asked.symbol("another.Service").error_response().error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(asked.symbol("icecore.v1.PutRequest").original_request().file_containing_symbol(), "icecore.v1.PutRequest");
}

TEST_F(GrpcStrangers, reflection_tells_the_services_by_both_its_names) {
  new_questions now(channel_);
  tell_all(now);
  old_questions before(channel_);
  tell_all(before);
  grpc::reflection::v1::ServerReflectionRequest request;
  request.set_file_by_filename("icecore/v1/icecore.proto");
  EXPECT_GE(now.ask(request).file_descriptor_response().file_descriptor_proto_size(), 1);
  request.set_all_extension_numbers_of_type("icecore.v1.PutRequest");
  EXPECT_EQ(now.ask(request).all_extension_numbers_response().base_type_name(), "icecore.v1.PutRequest");
  request.mutable_file_containing_extension()->set_containing_type("icecore.v1.PutRequest");
  EXPECT_EQ(now.ask(request).error_response().error_code(), grpc::StatusCode::NOT_FOUND);
  request.clear_message_request();
  EXPECT_EQ(now.ask(request).error_response().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(GrpcStrangers, open_reflection_streams_hold_up_nobody) {
  start_with({});
  std::vector<std::unique_ptr<new_questions>> open;
  for (int i = 0; i < 40; ++i) {
    open.push_back(std::make_unique<new_questions>(channel_));
    EXPECT_GE(open.back()->services().list_services_response().service_size(), 8);
  }
  users_do_not_notice();
  EXPECT_TRUE(eventually([&] { return service_->in_flight_bytes().used() == 0; }));
  EXPECT_GT(service_->strangers_bytes().used(), 0U);
  open.clear();
  EXPECT_TRUE(eventually([&] { return service_->strangers_bytes().used() == 0; }));
}

TEST_F(GrpcStrangers, a_reflection_stream_that_asks_nothing_is_ended_after_the_read_limit) {
  service::limits limits;
  limits.read_limit = 200ms;
  start_with(limits);
  new_questions silent(channel_);
  silent.services();
  const grpc::Status status = silent.end_of_a_silent_one();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("read_limit"));
}

}  // namespace
}  // namespace icecore::doors
