// A process that is killed, on either side, over each transport.
#include <gtest/gtest.h>

#include "peer_process.hpp"

namespace icecore::wire::testing {
namespace {

class WireKilled : public ::testing::TestWithParam<transport> {};

INSTANTIATE_TEST_SUITE_P(Over, WireKilled, ::testing::Values(transport::shared_memory, transport::tcp),
                         [](const auto& way) { return way.param == transport::tcp ? "Tcp" : "SharedMemory"; });

TEST_P(WireKilled, AKilledServerLeavesNoRequestWithoutAnOutcome) {
  peer_process server("serve", GetParam());
  client_settings settings;
  settings.address = {.host = "127.0.0.1", .port = server.told()};
  settings.token = job_token;
  settings.ucx.way = GetParam();
  client_endpoint client(settings);
  ASSERT_EQ(client.call(echo, 0, number(1), soon()).how, outcome::answered);
  std::future<answer> held = client.send(hold, 0, number(1), soon());
  std::future<answer> held_long = client.send(hold, 0, pattern(1 << 20), soon());
  std::thread killing([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    server.kill_it();
  });
  outcome last = outcome::answered;
  while (last == outcome::answered) last = client.call(echo, 0, number(2), soon()).how;
  killing.join();
  EXPECT_TRUE(last == outcome::broken || last == outcome::not_sent);
  EXPECT_EQ(held.get().how, outcome::broken);
  EXPECT_EQ(held_long.get().how, outcome::broken);
  EXPECT_EQ(client.ended(), close_reason::lost);
  EXPECT_EQ(client.call(echo, 0, number(3), soon()).how, outcome::not_sent);
}

TEST_P(WireKilled, AnIdleClientNoticesThatItsServerDied) {
  peer_process server("serve", GetParam());
  client_settings settings;
  settings.address = {.host = "127.0.0.1", .port = server.told()};
  settings.token = job_token;
  settings.ucx.way = GetParam();
  client_endpoint client(settings);
  server.kill_it();
  const auto limit = soon();
  while (client.ended() == close_reason::none && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(client.ended(), close_reason::lost);
}

TEST_P(WireKilled, KilledClientsLeaveNothingBehindAndOthersDoNotNotice) {
  service answers;
  server_endpoint server(settings_of_server(GetParam()), answers);
  client_settings settings = settings_of_client(server, GetParam());
  client_endpoint other(settings);
  for (const char* role : {"call", "flood", "call", "flood"}) {
    peer_process killed(role, GetParam(), server.address().port);
    static_cast<void>(killed.told());
    ASSERT_EQ(other.call(echo, 0, number(1), soon()).how, outcome::answered);
    killed.kill_it();
    EXPECT_EQ(answers.wait_for_close(), close_reason::lost);
    ASSERT_EQ(other.call(echo, 0, number(2), soon()).how, outcome::answered);
  }
  other.close(std::chrono::seconds(5));
  EXPECT_EQ(answers.wait_for_close(), close_reason::by_peer);
  const auto limit = soon();
  while ((server.counters().bytes_held != 0 || server.counters().connections_open != 0) &&
         std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(server.counters().bytes_held, 0U);
  EXPECT_EQ(server.counters().connections_open, 0U);
  EXPECT_EQ(server.counters().requests_in_flight, 0U);
}

}  // namespace
}  // namespace icecore::wire::testing
