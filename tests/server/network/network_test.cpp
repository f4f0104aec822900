// A network between clients and server that loses, delays, repeats and reorders packets, is cut, and resets
// connections: what was acknowledged is there, nothing takes effect twice, nobody waits for ever, and clients go on
// soon after the network does. Through both doors at once. ICECORE_NETWORK_SECONDS (3; ./check --long: 60) says how
// long each lasts; a partition lasts 10 s at least.
//
// The emulator is a program of ours, not netem: see emulated_network.hpp. Where it cannot run, all this is skipped.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <random>

#include "network/emulated_network.hpp"
#include "network/journal.hpp"
#include "support/scratch.hpp"
#include "ways/server_process.hpp"

namespace icecore::network {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using seconds = std::chrono::duration<double>;

constexpr auto waiting_slack = 15s;  // an overloaded machine
constexpr auto patience = 120s;

std::chrono::seconds trouble_time() {
  const char* text = std::getenv("ICECORE_NETWORK_SECONDS");
  return std::chrono::seconds(text != nullptr ? std::atoi(text) : 3);
}
std::chrono::seconds partition_time() { return std::max<std::chrono::seconds>(trouble_time(), 10s); }

emulated_network* the_network() {
  static const std::string why = emulated_network::why_not();
  static std::optional<emulated_network> net;
  if (!why.empty()) return nullptr;
  if (!net) net.emplace();
  return &*net;
}

class Network : public ::testing::Test {
 protected:
  void SetUp() override {
    net_ = the_network();
    if (net_ == nullptr) GTEST_SKIP() << emulated_network::why_not();
    net_->become({});
    start_server();
    ways::connect(to(ways::door::ucx))->create("journal", {.rule = remote::version_rule::write});
    for (const ways::door each : doors_) {
      for (int i = 0; i < 2; ++i) clients_.push_back(std::make_unique<journal>(to(each), "journal", i));
    }
  }

  void start_server() {
    server_.emplace(folder_.path(), ways::server_settings{.listen = {{"grpc", grpc_address_}, {"ucx", ucx_address_}},
                                                          .flags = {"--ucx-transport", "tcp"},
                                                          .in_child = [this] {
                                                            net_->join_as_server();
                                                            ::setenv("UCX_NET_DEVICES", emulated_network::server_device,
                                                                     1);
                                                          }});
    ASSERT_FALSE(server_->address("grpc").empty()) << server_->log();
    ASSERT_FALSE(server_->address("ucx").empty()) << server_->log();
  }
  [[nodiscard]] ways::destination to(ways::door through) const {
    return {.through = through,
            .address = through == ways::door::ucx ? ucx_address_ : grpc_address_,
            .deadline = deadline_,
            .network_devices = emulated_network::client_device};
  }

  // Clients work before, during and after the trouble.
  template <typename Trouble>
  void survives(const Trouble& trouble) {
    for (const auto& each : clients_) each->start();
    go_on_for("before", clock::now());
    trouble();
    net_->become({});
    go_on_for("after", clock::now());
    for (const auto& each : clients_) each->stop();
    std::uint64_t answered = 0;
    std::uint64_t lost = 0;
    const auto shown = ways::connect(to(ways::door::ucx))->open("journal");
    for (const auto& each : clients_) {
      each->compare(*shown);
      EXPECT_LT(seconds(each->longest_call()), seconds(deadline_ + waiting_slack)) << "a call waited for ever";
      answered += each->answered();
      lost += each->lost();
    }
    EXPECT_EQ(server_->terminate(), 0) << server_->log();
    const counts all = net_->counted();
    std::printf(
        "%llu calls answered, %llu not; packets: %llu forwarded, %llu lost, %llu duplicated, %llu reordered; "
        "%llu connections reset\n",
        static_cast<unsigned long long>(answered), static_cast<unsigned long long>(lost),
        static_cast<unsigned long long>(all.forwarded), static_cast<unsigned long long>(all.lost),
        static_cast<unsigned long long>(all.duplicated), static_cast<unsigned long long>(all.reordered),
        static_cast<unsigned long long>(all.resets));
  }
  void survives(const condition& bad) {
    survives([&] {
      net_->become(bad);
      std::this_thread::sleep_for(trouble_time());
    });
  }
  // Each client is answered what it asks from then on.
  void wait_for_all(const char* when, clock::time_point since) {
    for (const auto& each : clients_) {
      while (each->last_begun() < since && clock::now() - since < patience) std::this_thread::sleep_for(5ms);
      EXPECT_GE(each->last_begun(), since) << when << " the trouble a client is not answered";
    }
  }
  // Soon, and for a while.
  void go_on_for(const char* when, clock::time_point since) {
    wait_for_all(when, since);
    std::printf("%s the trouble, all clients are answered after %.2f s\n", when, seconds(clock::now() - since).count());
    if (std::getenv("ICECORE_NETWORK_SECONDS") != nullptr) {
      EXPECT_LE(clock::now() - since, 5s) << when << " the trouble: too late";
    }
    std::this_thread::sleep_for(500ms);
  }

  std::chrono::seconds deadline_ = 5s;  // of each call
  std::vector<ways::door> doors_{ways::door::grpc, ways::door::ucx};
  const std::string grpc_address_ = std::string(emulated_network::server_loopback) + ":7480";
  const std::string ucx_address_ = std::string(emulated_network::server_address) + ":7482";
  const testing::scratch folder_{testing::place::disk};
  emulated_network* net_ = nullptr;
  std::optional<ways::server_process> server_;
  std::vector<std::unique_ptr<journal>> clients_;
};

TEST_F(Network, that_loses_one_packet_in_a_hundred) { survives({.loss = 0.01}); }
TEST_F(Network, that_loses_one_packet_in_five) { survives({.loss = 0.2}); }
TEST_F(Network, that_delays_each_packet_by_up_to_100_ms) { survives({.jitter = 100ms}); }
TEST_F(Network, that_duplicates_packets) { survives({.duplicates = 0.2}); }
TEST_F(Network, that_reorders_packets) { survives({.reordered = 0.25}); }
TEST_F(Network, that_does_all_of_this) {
  survives({.loss = 0.05, .duplicates = 0.05, .reordered = 0.1, .delay = 20ms, .jitter = 50ms});
}

TEST_F(Network, that_is_cut) {
  survives([&] {
    net_->become({.to_server = false, .to_client = false});
    std::this_thread::sleep_for(partition_time());
  });
}

// What is asked takes effect, and nobody is told.
TEST_F(Network, that_is_cut_on_the_way_back) {
  survives([&] {
    net_->become({.to_client = false});
    std::this_thread::sleep_for(partition_time());
  });
}

// A connection takes several round trips: TCP, what the door says first, then the call.
class SlowNetwork : public Network {
 protected:
  SlowNetwork() { deadline_ = 30s; }
};
TEST_F(SlowNetwork, lets_clients_connect) {
  survives([&] {
    net_->become({.delay = 300ms});
    net_->reset_connections();
    std::this_thread::sleep_for(1s);
    wait_for_all("during", clock::now());
  });
}

TEST_F(Network, that_resets_connections) {
  survives([&] {
    for (const auto until = clock::now() + trouble_time(); clock::now() < until; std::this_thread::sleep_for(300ms)) {
      net_->reset_connections();
    }
  });
  EXPECT_GT(net_->counted().resets, 0U);
}

// Each step of connecting takes a while, and a reset meets each of them some time: TCP, the handshake, UCX's wiring up.
// gRPC waits longer after each attempt that fails, so its clients would be late.
class NetworkOfUcx : public Network {
 protected:
  NetworkOfUcx() { doors_ = {ways::door::ucx}; }
};
TEST_F(NetworkOfUcx, that_resets_connections_while_they_are_made) {
  survives([&] {
    net_->become({.delay = 10ms});
    std::mt19937 random(7);
    for (const auto until = clock::now() + trouble_time(); clock::now() < until;) {
      std::this_thread::sleep_for(10ms + std::chrono::milliseconds(random() % 130));
      net_->reset_connections();
    }
  });
}

// The server is another process when the network is back: the clients' connections are half open.
TEST_F(Network, that_is_cut_while_the_server_starts_again) {
  survives([&] {
    net_->become({.to_server = false, .to_client = false});
    server_->kill();
    start_server();
    std::this_thread::sleep_for(trouble_time());
  });
}

}  // namespace
}  // namespace icecore::network
