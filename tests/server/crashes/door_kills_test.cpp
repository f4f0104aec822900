// The program is killed again and again under load through one of its doors: what was acknowledged or read is there
// afterwards, and nothing is half done. Under each version rule; ICECORE_KILLS says how often (5; ./check --long:
// 1,000), ICECORE_SERVER_SECONDS for how long instead.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "crashes/effort.hpp"
#include "support/scratch.hpp"
#include "ways/server_process.hpp"
#include "ways/way.hpp"

namespace icecore::service {
namespace {

using namespace std::chrono_literals;

// A read over UCX is repeated until its deadline, so each kill takes as long.
std::chrono::milliseconds patience(ways::door through) { return through == ways::door::ucx ? 2s : 30s; }

// What one client knows of its keys.
struct known {
  int acknowledged = 0;
  int begun = 0;
  int read = 0;  // of the next client's keys
  version tagged = 0;
  int value_at_tag = 0;
};

// A client. What fails returns false: the server is gone.
class client {
 public:
  explicit client(const ways::destination& to) : connection_(ways::connect(to)) {}
  [[nodiscard]] ways::connection& connection() const noexcept { return *connection_; }
  void open() { database_ = connection_->open("kills"); }

  bool write_two(const std::string& first, const std::string& second, const std::string& value) {
    return call([&] { database_->apply({{first, value}, {second, value}}); });
  }
  bool get(const std::string& key, version at, int& value) {
    return call([&] {
      const auto found = database_->get(key, at == 0 ? ways::point() : ways::point(at));
      value = found ? std::stoi(*found) : 0;
    });
  }
  bool tag(version& closed) {
    return call([&] { closed = database_->tag(); });
  }
  [[nodiscard]] const std::string& failure() const noexcept { return failure_; }

 private:
  template <typename Call>
  bool call(Call what) {
    try {
      what();
      return true;
    } catch (const error& e) {
      EXPECT_TRUE(ways::lost(e) || e.code() == errc::unauthenticated) << e.what();
      failure_ = e.what();
      return false;
    }
  }
  std::unique_ptr<ways::connection> connection_;
  std::unique_ptr<ways::way> database_;
  std::string failure_;
};

std::string key(int of, char which) { return "client-" + std::to_string(of) + "-" + which; }

struct kind {
  ways::door through;
  remote::version_rule rule;
};

class DoorKills : public ::testing::TestWithParam<kind> {
 protected:
  static constexpr int clients = 4;

  // What the server has, and what client `i` knows.
  void compare(client& to, int i) {
    known& k = knowledge_[static_cast<std::size_t>(i)];
    int a = 0;
    int b = 0;
    ASSERT_TRUE(to.get(key(i, 'a'), 0, a)) << to.failure();
    ASSERT_TRUE(to.get(key(i, 'b'), 0, b)) << to.failure();
    EXPECT_EQ(a, b) << "half of a transaction";
    EXPECT_GE(a, k.acknowledged);
    EXPECT_LE(a, k.begun);
    EXPECT_GE(a, knowledge_[static_cast<std::size_t>((i + clients - 1) % clients)].read) << "somebody has read it";
    if (k.tagged != 0) {
      int then = 0;
      ASSERT_TRUE(to.get(key(i, 'a'), k.tagged, then)) << to.failure();
      EXPECT_GE(then, k.value_at_tag);
    }
    k.acknowledged = a;
  }
  // It writes 1, 2, 3, ... to two keys in one transaction, and reads what the next client writes.
  void ask(client& to, int i) {
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

  // As many kills as one folder has, or are asked for; after the last one too it is compared.
  void kill_in_one_folder(const crashes::effort& asked) {
    const testing::scratch folder(testing::place::disk);
    knowledge_.assign(clients, {});
    const std::string door = ways::name_of(GetParam().through);
    for (std::uint64_t here = 0; !HasFailure(); ++here) {
      ways::server_process server(folder.path(), {.listen = {{door, ways::any_port}}});
      const std::string address = server.address(door);
      ASSERT_FALSE(address.empty()) << server.log();
      std::vector<client> all;
      for (int i = 0; i < clients; ++i) {
        all.emplace_back(ways::destination{.through = GetParam().through,
                                           .address = address,
                                           .deadline = patience(GetParam().through),
                                           .connect_limit = 30s});
      }
      if (here == 0) all[0].connection().create("kills", {.rule = GetParam().rule, .interval = 10ms});
      for (client& each : all) each.open();
      for (int i = 0; i < clients; ++i) compare(all[static_cast<std::size_t>(i)], i);
      if (here == crashes::kills_of_a_folder || !asked.wants(kills_) || HasFailure()) break;
      std::vector<std::thread> running;
      for (int i = 0; i < clients; ++i) {
        running.emplace_back([&, i] { ask(all[static_cast<std::size_t>(i)], i); });
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20 + random_() % 200));
      server.kill();
      for (std::thread& thread : running) thread.join();
      if (++kills_ % 100 == 0) {
        std::printf("%llu kills\n", static_cast<unsigned long long>(kills_));
        std::fflush(stdout);
      }
    }
    for (const known& k : knowledge_) acknowledged_ += static_cast<std::uint64_t>(k.acknowledged);
  }

  std::vector<known> knowledge_;
  std::mt19937_64 random_{crashes::asked_seed(17)};
  std::uint64_t kills_ = 0;
  std::uint64_t acknowledged_ = 0;
};

TEST_P(DoorKills, leave_what_was_acknowledged_or_read) {
  const crashes::effort asked("ICECORE_KILLS", 5);
  while (asked.wants(kills_) && !HasFailure()) kill_in_one_folder(asked);
  EXPECT_GT(acknowledged_, 0U);
  std::printf("%llu kills, %llu writes acknowledged\n", static_cast<unsigned long long>(kills_),
              static_cast<unsigned long long>(acknowledged_));
}

std::string name_of(const ::testing::TestParamInfo<kind>& of) {
  const std::string rule = of.param.rule == remote::version_rule::write   ? "write"
                           : of.param.rule == remote::version_rule::every ? "every"
                                                                          : "tag";
  return std::string(ways::name_of(of.param.through)) + "_" + rule;
}

INSTANTIATE_TEST_SUITE_P(Doors, DoorKills,
                         ::testing::Values(kind{ways::door::grpc, remote::version_rule::write},
                                           kind{ways::door::grpc, remote::version_rule::every},
                                           kind{ways::door::grpc, remote::version_rule::tag},
                                           kind{ways::door::ucx, remote::version_rule::write},
                                           kind{ways::door::ucx, remote::version_rule::every},
                                           kind{ways::door::ucx, remote::version_rule::tag}),
                         name_of);

}  // namespace
}  // namespace icecore::service
