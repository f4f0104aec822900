// The server is killed again and again under load through gRPC: what was acknowledged or read is there afterwards, and
// nothing is half done. ICECORE_KILLS says how often (5; ./check --long: 1,000).
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "icecore/v1/icecore.grpc.pb.h"
#include "support/scratch.hpp"

namespace icecore::service {
namespace {

using namespace std::chrono_literals;

int kills_asked() {
  const char* text = std::getenv("ICECORE_KILLS");
  return text != nullptr ? std::atoi(text) : 5;
}

// A server in a process of its own.
class process {
 public:
  process(const std::filesystem::path& folder, int round) : log_(folder / ("log-" + std::to_string(round))) {
    const std::string data = folder / "data";
    pid_ = ::fork();
    if (pid_ == 0) {
      const int log = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(log, 2);
      ::execl(ICECORE_SERVER, "icecore-server", "--data", data.c_str(), "--listen-grpc", "127.0.0.1:0", "--listen-http",
              "", "--limits-free-disk-bytes", "0 B", static_cast<char*>(nullptr));
      std::_Exit(127);
    }
  }
  ~process() { kill(); }
  process(const process&) = delete;
  process& operator=(const process&) = delete;

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  /// Where gRPC listens; empty if it does not after a minute.
  [[nodiscard]] std::string address() const {
    for (const auto until = std::chrono::steady_clock::now() + 60s; std::chrono::steady_clock::now() < until;
         std::this_thread::sleep_for(5ms)) {
      std::ifstream in(log_);
      for (std::string line; std::getline(in, line);) {
        const auto event = nlohmann::json::parse(line, nullptr, false);
        if (event.is_object() && event.value("event", "") == "server.listening" && event.value("door", "") == "grpc") {
          return event.at("address").get<std::string>();
        }
      }
    }
    return {};
  }
  [[nodiscard]] std::string log() const {
    std::ifstream in(log_);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  std::filesystem::path log_;
  pid_t pid_ = 0;
};

// What one client knows of its keys: it writes 1, 2, 3, ... to two keys in one transaction.
struct known {
  int acknowledged = 0;
  int begun = 0;
  int read = 0;  // of the next client's keys
  std::uint64_t tagged = 0;
  int value_at_tag = 0;
};

class client {
 public:
  client(const std::shared_ptr<grpc::Channel>& channel, int number, int clients)
      : store_(v1::Store::NewStub(channel)),
        versions_(v1::Versions::NewStub(channel)),
        number_(number),
        next_((number + 1) % clients) {}

  static std::string key(int of, char which) { return "client-" + std::to_string(of) + "-" + which; }

  bool write(known& k) {
    k.begun = std::max(k.begun, k.acknowledged) + 1;
    v1::WriteRequest request;
    request.set_database("kills");
    for (const char which : {'a', 'b'}) {
      auto* put = request.add_then()->mutable_put();
      put->set_key(key(number_, which));
      put->set_value(std::to_string(k.begun));
    }
    v1::WriteResponse response;
    if (!call([&](grpc::ClientContext* c) { return store_->Write(c, request, &response); })) return false;
    k.acknowledged = k.begun;
    return true;
  }
  bool read_next(known& k) {
    int value = 0;
    if (!get(key(next_, 'a'), value)) return false;
    k.read = std::max(k.read, value);
    return true;
  }
  bool tag(known& k) {
    v1::TagRequest request;
    request.set_database("kills");
    v1::TagResponse response;
    const int value = k.acknowledged;
    if (!call([&](grpc::ClientContext* c) { return versions_->Tag(c, request, &response); })) return false;
    k.tagged = response.version();
    k.value_at_tag = value;
    return true;
  }
  bool get(const std::string& key, int& value, std::uint64_t at = 0) {
    v1::GetRequest request;
    request.set_database("kills");
    request.set_key(key);
    if (at != 0) request.mutable_at()->set_version(at);
    v1::GetResponse response;
    if (!call([&](grpc::ClientContext* c) { return store_->Get(c, request, &response); })) return false;
    value = response.found() ? std::stoi(response.value()) : 0;
    return true;
  }

 private:
  template <typename Call>
  static bool call(Call what) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + 30s);
    return what(&context).ok();
  }
  std::unique_ptr<v1::Store::Stub> store_;
  std::unique_ptr<v1::Versions::Stub> versions_;
  int number_;
  int next_;
};

std::shared_ptr<grpc::Channel> connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

class GrpcKills : public ::testing::TestWithParam<v1::VersionRule> {};

TEST_P(GrpcKills, what_was_acknowledged_or_read_is_there_after_each) {
  constexpr int clients = 4;
  const testing::scratch folder(testing::place::disk);
  std::mt19937 random(17);
  std::vector<known> knowledge(clients);
  const int kills = kills_asked();
  for (int round = 0; round <= kills; ++round) {
    process server(folder.path(), round);
    const std::string address = server.address();
    ASSERT_FALSE(address.empty()) << server.log();
    const auto channel = connect(address);
    if (round == 0) {
      v1::CreateDatabaseRequest request;
      request.mutable_settings()->set_name("kills");
      request.mutable_settings()->set_rule(GetParam());
      request.mutable_settings()->set_interval_ms(10);
      grpc::ClientContext context;
      v1::CreateDatabaseResponse response;
      const auto status = v1::Databases::NewStub(channel)->Create(&context, request, &response);
      ASSERT_TRUE(status.ok()) << status.error_message();
    }
    std::vector<std::unique_ptr<client>> all;
    for (int i = 0; i < clients; ++i) all.push_back(std::make_unique<client>(channel, i, clients));
    for (int i = 0; i < clients; ++i) {
      known& k = knowledge[static_cast<std::size_t>(i)];
      int a = 0;
      int b = 0;
      ASSERT_TRUE(all[static_cast<std::size_t>(i)]->get(client::key(i, 'a'), a)) << server.log();
      ASSERT_TRUE(all[static_cast<std::size_t>(i)]->get(client::key(i, 'b'), b));
      EXPECT_EQ(a, b) << "half of a transaction";
      EXPECT_GE(a, k.acknowledged);
      EXPECT_LE(a, k.begun);
      EXPECT_GE(a, knowledge[static_cast<std::size_t>((i + clients - 1) % clients)].read) << "somebody has read it";
      if (k.tagged != 0) {
        int then = 0;
        ASSERT_TRUE(all[static_cast<std::size_t>(i)]->get(client::key(i, 'a'), then, k.tagged));
        EXPECT_GE(then, k.value_at_tag);
      }
      k.acknowledged = a;
    }
    if (round == kills) break;
    std::vector<std::thread> running;
    for (int i = 0; i < clients; ++i) {
      running.emplace_back([&, i] {
        client& mine = *all[static_cast<std::size_t>(i)];
        known& k = knowledge[static_cast<std::size_t>(i)];
        for (int step = 1;; ++step) {
          if (!mine.write(k) || !mine.read_next(k)) return;
          if (step % 20 == 0 && !mine.tag(k)) return;
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + random() % 200));
    server.kill();
    for (std::thread& thread : running) thread.join();
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, GrpcKills, ::testing::Values(v1::VERSION_RULE_WRITE, v1::VERSION_RULE_EVERY),
                         [](const auto& rule) { return rule.param == v1::VERSION_RULE_WRITE ? "write" : "every"; });

}  // namespace
}  // namespace icecore::service
