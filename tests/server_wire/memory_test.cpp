// No client makes a server use more memory than it was given.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "careless_peer.hpp"
#include "peer_process.hpp"
#include "support/own_memory.hpp"

namespace icecore::wire::testing {
namespace {

class WireMemory : public ::testing::TestWithParam<transport> {};

INSTANTIATE_TEST_SUITE_P(Over, WireMemory, ::testing::Values(transport::shared_memory, transport::tcp),
                         [](const auto& way) { return way.param == transport::tcp ? "Tcp" : "SharedMemory"; });

/// Clients that take no answer, that stop in the middle of a request, and that are killed, while another one works.
/// The bound: what all requests and answers may take; one answer more, since one is let in while there is room for a
/// byte of it; a constant for each connection, and one for the process.
TEST_P(WireMemory, NoClientMakesAServerUseMoreThanItsLimits) {
  if (icecore::testing::freed_memory_is_counted) GTEST_SKIP() << "a sanitizer keeps what was freed, or notes of it";
  // malloc keeps no blocks of this length for later, which nobody could tell from what is in use.
  constexpr std::uint32_t long_bytes = 40'000'000;
  constexpr std::uint64_t of_connection = 300'000, of_process = 30'000'000;
  peer_process server("serve_little", GetParam());
  const socket_address where{.host = "127.0.0.1", .port = server.told()};
  client_settings settings;
  settings.address = where;
  settings.token = job_token;
  settings.ucx.way = GetParam();
  client_endpoint other(settings);
  ASSERT_EQ(other.call(echo, 0, pattern(100'000), soon()).status, status_ok);
  const std::string process = std::to_string(server.pid());
  const std::uint64_t before = icecore::testing::memory_of(process);
  std::atomic<std::uint64_t> most = before;
  std::atomic<bool> over = false;
  std::jthread looking([&] {
    for (; !over; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
      most = std::max(most.load(), icecore::testing::memory_of(process));
  });
  std::uint64_t connections = 1;
  std::vector<std::unique_ptr<careless_peer>> stopped;  // which are there to the end
  for (int round = 0; round < 2; ++round) {
    const std::size_t first = stopped.size();
    for (int i = 0; i < 12; ++i) stopped.push_back(std::make_unique<careless_peer>(where, GetParam()));
    peer_process killed("flood", GetParam(), where.port);
    connections += 13;
    // The short requests first: over shared memory, pieces fill the server's queue, and these peers do not try again.
    for (std::size_t i = first + 3; i < stopped.size(); ++i) stopped[i]->send(fill, number(long_bytes));
    for (std::size_t i = first; i < first + 3; ++i) {
      stopped[i]->send_pieces(echo, byte_buffer(std::size_t{long_bytes}), long_bytes / 4);
    }
    static_cast<void>(killed.told());
    killed.kill_it();
    for (const auto until = in(std::chrono::milliseconds(1500)); std::chrono::steady_clock::now() < until;) {
      const answer got = other.call(echo, 0, pattern(100'000), soon());
      EXPECT_EQ(got.how, outcome::answered);
      if (got.how != outcome::answered) break;
      EXPECT_TRUE(got.status == status_busy || same(got.payload, pattern(100'000)));
    }
  }
  over = true;
  looking.join();
  const std::uint64_t limits = settings_with_little_memory(GetParam()).limits.bytes_all_max;
  EXPECT_LE(most.load(), before + limits + long_bytes + connections * of_connection + of_process);
  EXPECT_GE(most.load(), before + limits / 2) << "the clients have asked for too little";
  std::uint16_t status = status_busy;
  for (const auto limit = soon(); status == status_busy && std::chrono::steady_clock::now() < limit;) {
    status = other.call(echo, 0, pattern(100'000), soon()).status;
  }
  EXPECT_EQ(status, status_ok);
}

}  // namespace
}  // namespace icecore::wire::testing
