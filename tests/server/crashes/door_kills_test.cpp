// The program is killed again and again under load through one of its doors: what was acknowledged or read is there
// afterwards, and nothing is half done. Under each version rule; ICECORE_KILLS says how often (5; ./check --long:
// 1,000).
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>

#include "icecore/remote.hpp"
#include "icecore/v1/icecore.grpc.pb.h"
#include "support/scratch.hpp"

namespace icecore::service {
namespace {

using namespace std::chrono_literals;

int kills_asked() {
  const char* text = std::getenv("ICECORE_KILLS");
  return text != nullptr ? std::atoi(text) : 5;
}

enum class door : std::uint8_t { grpc, ucx };
constexpr const char* job_token = "the token of this test";

// A server in a process of its own, with one door.
class process {
 public:
  process(const std::filesystem::path& folder, door which) : log_(folder / "log"), door_(which) {
    const std::string data = folder / "data";
    const std::string token = folder / "token";
    std::ofstream(token) << job_token << '\n';
    std::filesystem::permissions(token, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    const bool ucx = which == door::ucx;
    std::filesystem::remove(log_);
    pid_ = ::fork();
    if (pid_ == 0) {
      const int log = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(log, 2);
      ::execl(ICECORE_SERVER, "icecore-server", "--data", data.c_str(), "--listen-grpc", ucx ? "" : "127.0.0.1:0",
              "--listen-ucx", ucx ? "127.0.0.1:0" : "", "--ucx-token-file", token.c_str(), "--listen-http", "",
              "--limits-free-disk-bytes", "0 B", static_cast<char*>(nullptr));
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

  /// Where the door listens; empty if it does not after a minute.
  [[nodiscard]] std::string address() const {
    for (const auto until = std::chrono::steady_clock::now() + 60s; std::chrono::steady_clock::now() < until;
         std::this_thread::sleep_for(5ms)) {
      std::ifstream in(log_);
      for (std::string line; std::getline(in, line);) {
        const auto event = nlohmann::json::parse(line, nullptr, false);
        if (event.is_object() && event.value("event", "") == "server.listening" &&
            event.value("door", "") == (door_ == door::ucx ? "ucx" : "grpc")) {
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
  door door_;
  pid_t pid_ = 0;
};

// What one client knows of its keys.
struct known {
  int acknowledged = 0;
  int begun = 0;
  int read = 0;  // of the next client's keys
  std::uint64_t tagged = 0;
  int value_at_tag = 0;
};

// One client's way to the database. What fails returns false: the server is gone.
class way {
 public:
  way() = default;
  way(const way&) = delete;
  way& operator=(const way&) = delete;
  virtual ~way() = default;
  virtual bool write_two(const std::string& first, const std::string& second, const std::string& value) = 0;
  virtual bool get(const std::string& key, std::uint64_t at, int& value) = 0;
  virtual bool tag(std::uint64_t& version) = 0;
};

class grpc_way : public way {
 public:
  explicit grpc_way(const std::shared_ptr<grpc::Channel>& channel)
      : store_(v1::Store::NewStub(channel)), versions_(v1::Versions::NewStub(channel)) {}
  bool write_two(const std::string& first, const std::string& second, const std::string& value) override {
    v1::WriteRequest request;
    request.set_database("kills");
    for (const std::string& key : {first, second}) {
      auto* put = request.add_then()->mutable_put();
      put->set_key(key);
      put->set_value(value);
    }
    v1::WriteResponse response;
    return call([&](grpc::ClientContext* c) { return store_->Write(c, request, &response); });
  }
  bool get(const std::string& key, std::uint64_t at, int& value) override {
    v1::GetRequest request;
    request.set_database("kills");
    request.set_key(key);
    if (at != 0) request.mutable_at()->set_version(at);
    v1::GetResponse response;
    if (!call([&](grpc::ClientContext* c) { return store_->Get(c, request, &response); })) return false;
    value = response.found() ? std::stoi(response.value()) : 0;
    return true;
  }
  bool tag(std::uint64_t& version) override {
    v1::TagRequest request;
    request.set_database("kills");
    v1::TagResponse response;
    if (!call([&](grpc::ClientContext* c) { return versions_->Tag(c, request, &response); })) return false;
    version = response.version();
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
};

class ucx_way : public way {
 public:
  explicit ucx_way(remote::store of) : store_(std::move(of)) {}
  bool write_two(const std::string& first, const std::string& second, const std::string& value) override {
    batch both;
    both.insert(first, value);
    both.insert(second, value);
    return call([&] { store_.apply(both); });
  }
  bool get(const std::string& key, std::uint64_t at, int& value) override {
    return call([&] {
      const auto found = at == 0 ? store_.find(key) : store_.find(key, at);
      value = found ? std::stoi(std::string(found->bytes())) : 0;
    });
  }
  bool tag(std::uint64_t& version) override {
    return call([&] { version = store_.tag(); });
  }

 private:
  template <typename Call>
  static bool call(Call what) {
    try {
      what();
      return true;
    } catch (const error& e) {
      const bool gone = e.code() == errc::unavailable || e.code() == errc::outcome_unknown ||
                        e.code() == errc::deadline_exceeded || e.code() == errc::unauthenticated;
      EXPECT_TRUE(gone) << e.what();
      return false;
    }
  }
  remote::store store_;
};

// All ways of a process's life; `create`: makes the database first.
std::vector<std::unique_ptr<way>> ways_to(door which, const std::string& address, int clients,
                                          std::optional<v1::VersionRule> create) {
  std::vector<std::unique_ptr<way>> all;
  if (which == door::ucx) {
    for (int i = 0; i < clients; ++i) {
      remote::client c("ucx://" + address, {.token = job_token, .deadline = 2s, .connect_limit = 2s});
      if (create && i == 0) {
        c.create("kills", {.rule = *create == v1::VERSION_RULE_WRITE   ? remote::version_rule::write
                                   : *create == v1::VERSION_RULE_EVERY ? remote::version_rule::every
                                                                       : remote::version_rule::tag,
                           .interval = 10ms});
      }
      all.push_back(std::make_unique<ucx_way>(c.open("kills").with_deadline(2s)));
    }
    return all;
  }
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  if (create) {
    v1::CreateDatabaseRequest request;
    request.mutable_settings()->set_name("kills");
    request.mutable_settings()->set_rule(*create);
    request.mutable_settings()->set_interval_ms(10);
    grpc::ClientContext context;
    v1::CreateDatabaseResponse response;
    const auto status = v1::Databases::NewStub(channel)->Create(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  for (int i = 0; i < clients; ++i) all.push_back(std::make_unique<grpc_way>(channel));
  return all;
}

std::string key(int of, char which) { return "client-" + std::to_string(of) + "-" + which; }

struct kind {
  door through;
  v1::VersionRule rule;
};

class DoorKills : public ::testing::TestWithParam<kind> {
 protected:
  static constexpr int clients = 4;

  // What the server has, and what client `i` knows.
  void compare(way& to, int i) {
    known& k = knowledge_[static_cast<std::size_t>(i)];
    int a = 0;
    int b = 0;
    ASSERT_TRUE(to.get(key(i, 'a'), 0, a));
    ASSERT_TRUE(to.get(key(i, 'b'), 0, b));
    EXPECT_EQ(a, b) << "half of a transaction";
    EXPECT_GE(a, k.acknowledged);
    EXPECT_LE(a, k.begun);
    EXPECT_GE(a, knowledge_[static_cast<std::size_t>((i + clients - 1) % clients)].read) << "somebody has read it";
    if (k.tagged != 0) {
      int then = 0;
      ASSERT_TRUE(to.get(key(i, 'a'), k.tagged, then));
      EXPECT_GE(then, k.value_at_tag);
    }
    k.acknowledged = a;
  }
  // It writes 1, 2, 3, ... to two keys in one transaction, and reads what the next client writes.
  void ask(way& to, int i) {
    known& k = knowledge_[static_cast<std::size_t>(i)];
    for (int step = 1;; ++step) {
      k.begun = std::max(k.begun, k.acknowledged) + 1;
      if (!to.write_two(key(i, 'a'), key(i, 'b'), std::to_string(k.begun))) return;
      k.acknowledged = k.begun;
      int value = 0;
      if (!to.get(key((i + 1) % clients, 'a'), 0, value)) return;
      k.read = std::max(k.read, value);
      if (step % 20 != 0) continue;
      const int before = k.acknowledged;
      if (!to.tag(k.tagged)) return;
      k.value_at_tag = before;
    }
  }

  std::vector<known> knowledge_ = std::vector<known>(clients);
};

TEST_P(DoorKills, leave_what_was_acknowledged_or_read) {
  const testing::scratch folder(testing::place::disk);
  std::mt19937 random(17);
  const int kills = kills_asked();
  for (int round = 0; round <= kills && !HasFailure(); ++round) {
    process server(folder.path(), GetParam().through);
    const std::string address = server.address();
    ASSERT_FALSE(address.empty()) << server.log();
    auto ways =
        ways_to(GetParam().through, address, clients, round == 0 ? std::optional(GetParam().rule) : std::nullopt);
    for (int i = 0; i < clients; ++i) compare(*ways[static_cast<std::size_t>(i)], i);
    if (round == kills || HasFailure()) break;
    std::vector<std::thread> running;
    for (int i = 0; i < clients; ++i) {
      running.emplace_back([&, i] { ask(*ways[static_cast<std::size_t>(i)], i); });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + random() % 200));
    server.kill();
    for (std::thread& thread : running) thread.join();
  }
  int acknowledged = 0;
  for (const known& k : knowledge_) acknowledged += k.acknowledged;
  EXPECT_GT(acknowledged, 0);
  std::printf("%d kills, %d writes acknowledged\n", kills, acknowledged);
}

std::string name_of(const ::testing::TestParamInfo<kind>& of) {
  const std::string through = of.param.through == door::grpc ? "grpc_" : "ucx_";
  return through + (of.param.rule == v1::VERSION_RULE_WRITE   ? "write"
                    : of.param.rule == v1::VERSION_RULE_EVERY ? "every"
                                                              : "tag");
}

INSTANTIATE_TEST_SUITE_P(
    Doors, DoorKills,
    ::testing::Values(kind{door::grpc, v1::VERSION_RULE_WRITE}, kind{door::grpc, v1::VERSION_RULE_EVERY},
                      kind{door::grpc, v1::VERSION_RULE_TAG}, kind{door::ucx, v1::VERSION_RULE_WRITE},
                      kind{door::ucx, v1::VERSION_RULE_EVERY}, kind{door::ucx, v1::VERSION_RULE_TAG}),
    name_of);

}  // namespace
}  // namespace icecore::service
