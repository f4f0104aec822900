// Answers of the gRPC door: those that nobody reads, those that are large, and what is told of calls that were broken
// off.
#include <grpcpp/generic/generic_stub.h>

#include <future>
#include <thread>

#include "grpc_slow_client.hpp"
#include "grpc_support.hpp"

namespace icecore::doors {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class GrpcAnswers : public door_fixture {
 protected:
  void start_with(const service::limits& limits, grpc_door_options door = {}) {
    service::service_options options;
    options.limits = limits;
    start(options, std::move(door));
    create("db");
  }
  static v1::GetRequest request_of(const std::string& key) {
    v1::GetRequest request;
    request.set_database("db");
    request.set_key(key);
    return request;
  }
  errc write(const v1::WriteRequest& request) {
    return call(*store_, &v1::Store::StubInterface::Write, request, written_);
  }
  static v1::WriteRequest range_and_put() {
    v1::WriteRequest request;
    request.set_database("db");
    v1::Operation::Get& range = *request.add_then()->mutable_get();
    range.set_key("k");
    range.set_end("l");
    v1::Operation::Put& put = *request.add_then()->mutable_put();
    put.set_key("witness");
    put.set_value("written");
    return request;
  }
  v1::WriteResponse written_;
};

TEST_F(GrpcAnswers, an_answer_that_is_not_read_is_cut_and_what_it_held_is_given_back) {
  grpc_door_options door;
  door.stalled_limit = 300ms;
  start_with({}, door);
  put("db", "a", "small");
  slow_client asking(door_->port());
  asking.greet_without_reading();
  asking.ask("/icecore.v1.Store/Get", request_of("a"));
  EXPECT_TRUE(asking.has_ended(30s));
  EXPECT_EQ(door_->counted().cut_stalled, 1U);
  EXPECT_TRUE(eventually([&] { return service_->in_flight_bytes().used() == 0; }));
}

TEST_F(GrpcAnswers, a_value_that_waits_to_be_read_counts_as_bytes_in_flight) {
  service::limits limits;
  limits.in_flight_bytes = 500'000;
  start_with(limits);
  put("db", "a", std::string(200'000, 'v'));
  ASSERT_TRUE(eventually([&] { return service_->in_flight_bytes().used() == 0; }));
  std::vector<std::unique_ptr<slow_client>> asking;
  for (std::uint64_t i = 1; i <= 2; ++i) {
    asking.push_back(std::make_unique<slow_client>(door_->port()));
    asking.back()->greet_without_reading();
    asking.back()->ask("/icecore.v1.Store/Get", request_of("a"));
    EXPECT_TRUE(eventually([&] { return service_->in_flight_bytes().used() > i * 200'000; }));
  }
  v1::GetResponse response;
  EXPECT_EQ(call(*store_, &v1::Store::StubInterface::Get, request_of("a"), response), errc::limit_reached);
  EXPECT_EQ(get("db", "b"), "(none)");
  asking.clear();
  EXPECT_TRUE(eventually([&] { return service_->in_flight_bytes().used() == 0; }));
  EXPECT_EQ(get("db", "a").size(), 200'000U);
}

TEST_F(GrpcAnswers, a_transaction_reads_as_many_bytes_as_the_limit_says) {
  service::limits limits;
  limits.output_bytes = 100'000;
  limits.request_bytes = 100'000;
  start_with(limits);
  for (std::size_t i = 0; i < 9; ++i) put("db", key(i), std::string(10'000, 'v'));
  EXPECT_EQ(write(range_and_put()), errc{}) << status_.error_message();
  EXPECT_EQ(written_.results(0).rows_size(), 9);
  EXPECT_EQ(get("db", "witness"), "written");
  v1::RemoveRequest removing;
  removing.set_database("db");
  removing.set_key("witness");
  v1::RemoveResponse removed;
  ASSERT_EQ(call(*store_, &v1::Store::StubInterface::Remove, removing, removed), errc{});
  put("db", key(9), std::string(10'000, 'v'));
  EXPECT_EQ(write(range_and_put()), errc::limit_reached);
  EXPECT_THAT(status_.error_message(), HasSubstr("at most 100000 bytes"));
  EXPECT_EQ(get("db", "witness"), "(none)") << "it is refused as a whole";
  v1::WriteRequest some = range_and_put();
  some.mutable_then(0)->mutable_get()->set_limit(5);
  EXPECT_EQ(write(some), errc{}) << status_.error_message();
  EXPECT_EQ(written_.results(0).rows_size(), 5);
}

TEST_F(GrpcAnswers, what_a_transaction_reads_counts_as_bytes_in_flight) {
  service::limits limits;
  limits.in_flight_bytes = 100'000;
  start_with(limits);
  for (std::size_t i = 0; i < 12; ++i) put("db", key(i), std::string(10'000, 'v'));
  EXPECT_EQ(write(range_and_put()), errc::limit_reached);
  EXPECT_THAT(status_.error_message(), HasSubstr("in_flight_bytes"));
  EXPECT_EQ(get("db", "witness"), "(none)");
  EXPECT_TRUE(eventually([&] { return service_->in_flight_bytes().used() == 0; }));
  v1::WriteRequest some = range_and_put();
  some.mutable_then(0)->mutable_get()->set_limit(5);
  EXPECT_EQ(write(some), errc{}) << status_.error_message();
}

TEST_F(GrpcAnswers, a_write_that_waits_holds_up_no_other_call) {
  grpc_door_options door;
  door.polling_threads = 1;
  start_with({}, door);
  create("other", v1::VERSION_RULE_EVERY);
  auto held = service_->find_database(service::principal::anyone(), "other")->hold();
  std::future<std::uint64_t> waits = std::async(std::launch::async, [&] { return put("other", "a", "v"); });
  std::this_thread::sleep_for(50ms);  // so that the put has probably come
  for (int i = 0; i < 20; ++i) put("db", "a", std::to_string(i));
  EXPECT_EQ(waits.wait_for(0s), std::future_status::timeout);
  held.reset();
  EXPECT_GT(waits.get(), 0U);
  EXPECT_EQ(get("other", "a"), "v");
}

// ---- Calls that are broken off ----

TEST_F(GrpcAnswers, a_call_without_a_message_is_told_what_is_missing) {
  const auto observer = std::make_shared<remembering_observer>();
  grpc_door_options door;
  door.observer = observer;
  start_with({}, door);
  for (const char* const method : {"Store/Put", "Store/Scan", "Store/Watch"}) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + 60s);
    grpc::CompletionQueue queue;
    const auto wait = [&] {
      void* tag = nullptr;
      bool ok = false;
      EXPECT_TRUE(queue.Next(&tag, &ok));
    };
    const auto stream = stub.PrepareCall(&context, std::string("/icecore.v1.") + method, &queue);
    stream->StartCall(nullptr);
    wait();
    stream->WritesDone(nullptr);
    wait();
    grpc::Status status;
    stream->Finish(&status, nullptr);
    wait();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method;
    EXPECT_THAT(status.error_message(), HasSubstr("without a message")) << method;
  }
  EXPECT_TRUE(eventually([&] { return observer->all().size() == 4; }));
  EXPECT_EQ(observer->all().back().status, static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT));
}

TEST_F(GrpcAnswers, cancelled_calls_are_told_as_cancelled) {
  const auto observer = std::make_shared<remembering_observer>();
  grpc_door_options door;
  door.observer = observer;
  start_with({}, door);
  constexpr int loads = 50;
  for (int i = 0; i < loads; ++i) {
    grpc::ClientContext context;
    v1::LoadResponse response;
    const auto writer = store_->Load(&context, &response);
    v1::LoadRequest request;
    request.set_database("db");
    add_row(*request.mutable_rows(), key(static_cast<std::size_t>(i)), "v");
    ASSERT_TRUE(writer->Write(request));
    if (i % 2 == 0) {
      ASSERT_TRUE(eventually([&] { return get("db", key(static_cast<std::size_t>(i))) == "v"; }));
    }
    context.TryCancel();
    EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  const auto of_loads = [&] {
    std::vector<int> all;
    for (const auto& one : observer->all()) {
      if (one.method == "Store.Load") all.push_back(one.status);
    }
    return all;
  };
  ASSERT_TRUE(eventually([&] { return of_loads().size() == loads; }));
  for (const int status : of_loads()) EXPECT_EQ(status, static_cast<int>(grpc::StatusCode::CANCELLED));
}

}  // namespace
}  // namespace icecore::doors
