// Load on a server that speaks gRPC, icecore's or etcd's: the same generator for both, so that their figures compare.
//
//   icecore_grpc_load --server icecore --address 127.0.0.1:7480 --database bench --operation put --clients 100
//   icecore_grpc_load --server etcd --address 127.0.0.1:2379 --operation range --clients 100 --seconds 5
//   icecore_grpc_load ... --rate 10000      # open loop: calls begin when they are due, not when others end
//
// Closed loop: each client sends its next call when the one before was answered. Open loop: calls are due at even
// distances, whatever the server does; a latency counts from when the call was due. Prints one JSON object.
#include <absl/synchronization/mutex.h>
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "etcd.grpc.pb.h"
#include "icecore/v1/icecore.grpc.pb.h"

namespace {

using steady = std::chrono::steady_clock;
namespace v1 = icecore::v1;

struct load {
  std::string server = "icecore";
  std::string address = "127.0.0.1:7480";
  std::string database = "bench";
  std::string operation = "put";
  std::uint64_t clients = 1;
  std::uint64_t connections = 0;
  unsigned threads = 1;
  double seconds = 5;
  double warm_up_seconds = 1;
  double rate = 0;
  std::uint64_t keys = 100'000;
  std::size_t key_bytes = 8;
  std::size_t value_bytes = 256;
  std::uint64_t seed = 1;
};

std::string key_of(std::uint64_t number, std::size_t bytes) {
  std::string key = fmt::format("{:0{}d}", number, bytes);
  return key;
}

// One call that can be begun again and again on a completion queue.
class call {
 public:
  call() = default;
  call(const call&) = delete;
  call& operator=(const call&) = delete;
  virtual ~call() = default;
  virtual void begin(grpc::CompletionQueue& queue, const std::string& key) = 0;
  [[nodiscard]] virtual const grpc::Status& status() const = 0;
  steady::time_point due;
};

template <typename Request, typename Response, typename Stub>
class unary final : public call {
 public:
  using method = std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> (Stub::*)(grpc::ClientContext*,
                                                                                      const Request&,
                                                                                      grpc::CompletionQueue*);
  unary(std::shared_ptr<Stub> stub, method what, Request request,
        std::function<void(Request&, const std::string&)> fill)
      : stub_(std::move(stub)), what_(what), request_(std::move(request)), fill_(std::move(fill)) {}

  void begin(grpc::CompletionQueue& queue, const std::string& key) override {
    fill_(request_, key);
    context_.emplace();
    response_.Clear();
    reader_ = (stub_.get()->*what_)(&*context_, request_, &queue);
    reader_->Finish(&response_, &status_, static_cast<call*>(this));
  }
  [[nodiscard]] const grpc::Status& status() const override { return status_; }

 private:
  std::shared_ptr<Stub> stub_;
  method what_;
  Request request_;
  std::function<void(Request&, const std::string&)> fill_;
  std::optional<grpc::ClientContext> context_;
  Response response_;
  grpc::Status status_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader_;
};

std::unique_ptr<call> make_call(const load& of, const std::shared_ptr<grpc::Channel>& channel) {
  const std::string value(of.value_bytes, 'v');
  if (of.server == "etcd") {
    namespace etcd = etcdserverpb;
    std::shared_ptr<etcd::KV::Stub> stub = etcd::KV::NewStub(channel);
    if (of.operation == "put") {
      etcd::PutRequest request;
      request.set_value(value);
      return std::make_unique<unary<etcd::PutRequest, etcd::PutResponse, etcd::KV::Stub>>(
          stub, &etcd::KV::Stub::AsyncPut, request, [](auto& r, const std::string& key) { r.set_key(key); });
    }
    return std::make_unique<unary<etcd::RangeRequest, etcd::RangeResponse, etcd::KV::Stub>>(
        stub, &etcd::KV::Stub::AsyncRange, etcd::RangeRequest(),
        [](auto& r, const std::string& key) { r.set_key(key); });
  }
  std::shared_ptr<v1::Store::Stub> stub = v1::Store::NewStub(channel);
  if (of.operation == "put") {
    v1::PutRequest request;
    request.set_database(of.database);
    request.set_value(value);
    return std::make_unique<unary<v1::PutRequest, v1::PutResponse, v1::Store::Stub>>(
        stub, &v1::Store::Stub::AsyncPut, request, [](auto& r, const std::string& key) { r.set_key(key); });
  }
  v1::GetRequest request;
  request.set_database(of.database);
  return std::make_unique<unary<v1::GetRequest, v1::GetResponse, v1::Store::Stub>>(
      stub, &v1::Store::Stub::AsyncGet, request, [](auto& r, const std::string& key) { r.set_key(key); });
}

struct measured {
  std::uint64_t calls = 0;
  std::uint64_t failed = 0;
  std::string first_failure;
  std::vector<std::uint32_t> latencies_us;
};

// One thread with its share of the clients.
class driver {
 public:
  driver(const load& of, const std::vector<std::shared_ptr<grpc::Channel>>& channels, std::uint64_t clients,
         std::uint64_t seed)
      : of_(of), random_(seed) {
    for (std::uint64_t i = 0; i < clients; ++i) calls_.push_back(make_call(of, channels[i % channels.size()]));
  }

  measured run(steady::time_point from, steady::time_point until) {
    from_ = from;
    until_ = until;
    const double interval_s = of_.rate > 0 ? static_cast<double>(of_.threads) / of_.rate : 0;
    interval_ = std::chrono::nanoseconds(static_cast<std::int64_t>(interval_s * 1e9));
    return of_.rate > 0 ? open_loop() : closed_loop();
  }

 private:
  void begin(call& one, steady::time_point due) {
    one.due = due;
    one.begin(queue_, key_of(random_() % of_.keys, of_.key_bytes));
  }

  void count(const call& one, steady::time_point now) {
    if (one.due < from_ || one.due >= until_) return;
    ++result_.calls;
    if (!one.status().ok()) {
      if (result_.failed++ == 0) result_.first_failure = one.status().error_message();
    }
    using std::chrono::duration_cast;
    result_.latencies_us.push_back(
        static_cast<std::uint32_t>(duration_cast<std::chrono::microseconds>(now - one.due).count()));
  }

  measured closed_loop() {
    for (const auto& one : calls_) begin(*one, steady::now());
    std::size_t running = calls_.size();
    void* tag = nullptr;
    bool ok = false;
    while (running > 0 && queue_.Next(&tag, &ok)) {
      call& one = *static_cast<call*>(tag);
      const auto now = steady::now();
      count(one, now);
      if (now < until_) {
        begin(one, now);
      } else {
        --running;
      }
    }
    return std::move(result_);
  }

  measured open_loop() {
    std::vector<call*> idle;
    for (const auto& one : calls_) idle.push_back(one.get());
    steady::time_point due = steady::now();
    std::size_t running = 0;
    for (;;) {
      const auto now = steady::now();
      if (now >= until_ && running == 0) return std::move(result_);
      for (; due <= now && due < until_ && !idle.empty(); due += interval_) {
        begin(*idle.back(), due);
        idle.pop_back();
        ++running;
      }
      void* tag = nullptr;
      bool ok = false;
      const auto wait = std::chrono::system_clock::now() + std::chrono::microseconds(200);
      if (queue_.AsyncNext(&tag, &ok, idle.empty() ? wait + std::chrono::milliseconds(50) : wait) !=
          grpc::CompletionQueue::GOT_EVENT) {
        continue;
      }
      call& one = *static_cast<call*>(tag);
      count(one, steady::now());
      idle.push_back(&one);
      --running;
    }
  }

  const load& of_;
  std::mt19937_64 random_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<call>> calls_;
  steady::time_point from_;
  steady::time_point until_;
  std::chrono::nanoseconds interval_{};
  measured result_;
};

void make_database(const load& of, const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = v1::Databases::NewStub(channel);
  v1::CreateDatabaseRequest request;
  request.mutable_settings()->set_name(of.database);
  request.mutable_settings()->set_rule(v1::VERSION_RULE_WRITE);
  grpc::ClientContext context;
  v1::CreateDatabaseResponse response;
  const grpc::Status status = stub->Create(&context, request, &response);
  if (!status.ok() && status.error_code() != grpc::StatusCode::ALREADY_EXISTS) {
    throw std::runtime_error("the database cannot be made: " + status.error_message());
  }
}

double quantile(const std::vector<std::uint32_t>& sorted, double part) {
  if (sorted.empty()) return 0;
  const auto at = static_cast<std::size_t>(part * static_cast<double>(sorted.size()));
  return sorted[std::min(at, sorted.size() - 1)];
}

int run(const load& of) {
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  const std::uint64_t connections = of.connections != 0 ? of.connections : std::min<std::uint64_t>(of.clients, 100);
  for (std::uint64_t i = 0; i < connections; ++i) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    channels.push_back(grpc::CreateCustomChannel(of.address, grpc::InsecureChannelCredentials(), arguments));
    if (!channels.back()->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10))) {
      throw std::runtime_error(of.address + ": no server answers");
    }
  }
  if (of.server == "icecore") make_database(of, channels.front());

  std::vector<std::unique_ptr<driver>> drivers;
  const std::uint64_t in_flight = of.rate > 0 ? std::max<std::uint64_t>(of.clients, 4096) : of.clients;
  const auto threads = static_cast<unsigned>(std::min<std::uint64_t>(of.threads, in_flight));
  for (unsigned t = 0; t < threads; ++t) {
    const std::uint64_t share = in_flight / threads + (t < in_flight % threads ? 1 : 0);
    drivers.push_back(std::make_unique<driver>(of, channels, share, of.seed * 1000 + t));
  }
  const auto from = steady::now() + std::chrono::nanoseconds(static_cast<std::int64_t>(of.warm_up_seconds * 1e9));
  const auto until = from + std::chrono::nanoseconds(static_cast<std::int64_t>(of.seconds * 1e9));
  std::vector<measured> results(drivers.size());
  std::vector<std::thread> running;
  for (std::size_t t = 0; t < drivers.size(); ++t) {
    running.emplace_back([&, t] { results[t] = drivers[t]->run(from, until); });
  }
  for (std::thread& thread : running) thread.join();

  measured all;
  for (measured& one : results) {
    all.calls += one.calls;
    all.failed += one.failed;
    if (all.first_failure.empty()) all.first_failure = one.first_failure;
    all.latencies_us.insert(all.latencies_us.end(), one.latencies_us.begin(), one.latencies_us.end());
  }
  std::ranges::sort(all.latencies_us);
  const nlohmann::json told{{"server", of.server},
                            {"operation", of.operation},
                            {"clients", of.clients},
                            {"connections", connections},
                            {"rate_asked", of.rate},
                            {"calls", all.calls},
                            {"failed", all.failed},
                            {"first_failure", all.first_failure},
                            {"calls_per_second", static_cast<double>(all.calls) / of.seconds},
                            {"p50_us", quantile(all.latencies_us, 0.5)},
                            {"p99_us", quantile(all.latencies_us, 0.99)},
                            {"p99_9_us", quantile(all.latencies_us, 0.999)},
                            {"worst_us", all.latencies_us.empty() ? 0 : all.latencies_us.back()}};
  fmt::print("{}\n", told.dump());
  return all.failed == 0 && all.calls > 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  load of;
  CLI::App app{"Load on a gRPC server, icecore's or etcd's; prints one JSON object", "icecore_grpc_load"};
  app.add_option("--server", of.server, "icecore or etcd")->check(CLI::IsMember({"icecore", "etcd"}));
  app.add_option("--address", of.address, "HOST:PORT");
  app.add_option("--database", of.database, "icecore's database: made with the rule `write` if it is not there");
  app.add_option("--operation", of.operation, "put or get")->check(CLI::IsMember({"put", "get"}));
  app.add_option("--clients", of.clients, "calls at a time")->check(CLI::Range(1, 100'000));
  app.add_option("--connections", of.connections, "0: as many as clients, at most 100");
  app.add_option("--threads", of.threads, "of the generator")->check(CLI::Range(1, 64));
  app.add_option("--seconds", of.seconds, "that are measured")->check(CLI::PositiveNumber);
  app.add_option("--warm-up", of.warm_up_seconds, "seconds before")->check(CLI::NonNegativeNumber);
  app.add_option("--rate", of.rate, "calls a second, open loop; 0: closed loop")->check(CLI::NonNegativeNumber);
  app.add_option("--keys", of.keys, "different keys")->check(CLI::PositiveNumber);
  app.add_option("--key-bytes", of.key_bytes)->check(CLI::Range(8, 1000));
  app.add_option("--value-bytes", of.value_bytes)->check(CLI::Range(0, 1 << 20));
  app.add_option("--seed", of.seed);
  CLI11_PARSE(app, count, arguments);
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);  // some builds look for deadlocks at each lock
  try {
    return run(of);
  } catch (const std::exception& e) {
    fmt::print(stderr, "icecore_grpc_load: {}\n", e.what());
    return 1;
  }
}
