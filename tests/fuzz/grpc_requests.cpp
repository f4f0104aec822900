// Requests by gRPC: any bytes as the message of any method, executed by a small server in this process. Each call ends,
// with a status that the server meant, and gives back what it held; the server then answers others.
//
// Input: calls, each a byte (the method, modulo their number), two bytes (the length, low byte first), the message.
// Left out is Server.Snapshot, which writes a folder of the client's choice. The state stays for some hundred inputs,
// so an input that fails may need those before it.
#include <absl/synchronization/mutex.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <icecore/v1/icecore.pb.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "doors/grpc/door.hpp"
#include "support/fuzz_target.hpp"

namespace {

namespace v1 = icecore::v1;
using namespace std::chrono_literals;

constexpr std::size_t calls_most = 16;
constexpr int answers_most = 8;
constexpr int inputs_of_a_server = 500;

void require(bool holds, const std::string& promise) {
  if (!holds) throw std::logic_error(promise);
}

const std::vector<std::string>& methods() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> paths{"/grpc.health.v1.Health/Check", "/icecore.v1.Store/Nothing"};
    const google::protobuf::FileDescriptor* const file = v1::GetRequest::descriptor()->file();
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        const std::string& name = file->service(s)->method(m)->name();
        if (name != "Snapshot") paths.push_back("/" + file->service(s)->full_name() + "/" + name);
      }
    }
    return paths;
  }();
  return all;
}

icecore::service::service_options small(const std::filesystem::path& data) {
  icecore::service::service_options options;
  options.data = data;
  options.limits.free_disk_bytes = 0;
  options.limits.databases = 4;
  options.limits.request_bytes = 65'536;
  options.limits.in_flight_bytes = 1 << 24;
  options.limits.leases = 100;
  return options;
}

class server {
 public:
  server() : folder_(std::filesystem::temp_directory_path() / ("icecore-fuzz-grpc-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(folder_);
    service_.emplace(small(folder_));
    door_.emplace(*service_, icecore::doors::grpc_door_options{.port = 0});
    door_->start();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(door_->port()), grpc::InsecureChannelCredentials());
    stub_ = std::make_unique<grpc::GenericStub>(channel_);
    v1::CreateDatabaseRequest request;
    request.mutable_settings()->set_name("db");
    request.mutable_settings()->set_rule(v1::VERSION_RULE_WRITE);
    call("/icecore.v1.Databases/Create", request.SerializeAsString());
  }
  ~server() {
    stub_.reset();
    channel_.reset();
    door_.reset();
    service_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  void call(const std::string& method, const std::string& message) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + 10s);
    grpc::CompletionQueue queue;
    const auto stream = stub_->PrepareCall(&context, method, &queue);
    const auto done = [&queue] {
      void* tag = nullptr;
      bool well = false;
      return queue.Next(&tag, &well) && well;
    };
    stream->StartCall(nullptr);
    (void)done();
    const grpc::Slice bytes(message);
    stream->Write(grpc::ByteBuffer(&bytes, 1), nullptr);
    if (done()) {
      stream->WritesDone(nullptr);
      (void)done();
    }
    grpc::ByteBuffer answer;
    bool endless = false;
    for (int i = 0;; ++i) {
      stream->Read(&answer, nullptr);
      if (!done()) break;
      endless = method.ends_with("/Watch") || i == answers_most;
      if (endless) context.TryCancel();
    }
    grpc::Status status;
    stream->Finish(&status, nullptr);
    (void)done();
    queue.Shutdown();
    while (done()) {
    }
    const grpc::StatusCode code = status.error_code();
    require(code != grpc::StatusCode::UNKNOWN, method + ": an error that nobody meant: " + status.error_message());
    require(code != grpc::StatusCode::DEADLINE_EXCEEDED, method + " did not end");
  }

  void is_well() {
    v1::StatusRequest request;
    call("/icecore.v1.Server/Status", request.SerializeAsString());
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (service_->in_flight_bytes().used() != 0) {
      require(std::chrono::steady_clock::now() < until, "calls that have ended hold bytes");
      std::this_thread::yield();
    }
  }

 private:
  std::filesystem::path folder_;
  std::optional<icecore::service::service> service_;
  std::optional<icecore::doors::grpc_door> door_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::GenericStub> stub_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  static std::unique_ptr<server> serves;
  static int inputs = 0;
  icecore::testing::must_hold([&] {
    if (inputs++ % inputs_of_a_server == 0) {
      serves.reset();
      serves = std::make_unique<server>();
    }
    for (std::size_t i = 0; i < calls_most && size >= 3; ++i) {
      const std::size_t bytes = std::min<std::size_t>(size - 3, data[1] + std::size_t{256} * data[2]);
      serves->call(methods()[data[0] % methods().size()], std::string(reinterpret_cast<const char*>(data) + 3, bytes));
      data += 3 + bytes;
      size -= 3 + bytes;
    }
    serves->is_well();
  });
  return 0;
}
