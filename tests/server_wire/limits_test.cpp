// The limits of a server: all is well at the value, and not above it.
#include <gtest/gtest.h>

#include "careless_peer.hpp"
#include "support/own_memory.hpp"
#include "wire/server/server_state.hpp"

namespace icecore::wire::testing {
namespace {

TEST(WireLimits, SettingsThatCannotWorkAreRefused) {
  service answers;
  const auto refused = [&](auto change) {
    server_settings settings = settings_of_server();
    change(settings);
    EXPECT_THROW(server_endpoint(settings, answers), failure);
  };
  refused([](server_settings& s) { s.token = "seven.."; });
  refused([](server_settings& s) { s.io_threads = 0; });
  refused([](server_settings& s) { s.limits.connections_max = 65'536; });
  refused([](server_settings& s) { s.limits.requests_in_flight_max = 0; });
  refused([](server_settings& s) { s.limits.bytes_in_flight_max = s.limits.frame_bytes_max; });
  refused([](server_settings& s) { s.listen.host = "no.such.host.invalid"; });
  const server_endpoint first(settings_of_server(), answers);
  refused([&](server_settings& s) { s.listen = first.address(); });
}

TEST(WireLimits, Connections) {
  service answers;
  server_settings settings = settings_of_server();
  settings.limits.connections_max = 2;
  server_endpoint server(settings, answers);
  const client_endpoint first(settings_of_client(server));
  auto second = std::make_unique<client_endpoint>(settings_of_client(server));
  try {
    const client_endpoint third(settings_of_client(server));
    ADD_FAILURE() << "a third connection";
  } catch (const failure& told) {
    EXPECT_EQ(told.reason(), close_reason::too_many_connections);
  }
  second.reset();
  static_cast<void>(answers.wait_for_close());
  const auto limit = soon();
  while (server.counters().connections_open == 2 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  EXPECT_NO_THROW(client_endpoint(settings_of_client(server)));
}

TEST(WireLimits, BytesOfAFrame) {
  service answers;
  server_settings settings = settings_of_server();
  settings.limits.frame_bytes_max = 100'000;
  settings.limits.bytes_in_flight_max = 200'000;
  server_endpoint server(settings, answers);
  client_endpoint client(settings_of_client(server));
  EXPECT_EQ(client.call(echo, 0, pattern(100'000), soon()).how, outcome::answered);
  EXPECT_EQ(client.call(echo, 0, pattern(100'001), soon()).how, outcome::not_sent);
  EXPECT_EQ(client.call(echo, 0, pattern(100'000), soon()).how, outcome::answered);
  careless_peer peer(server);
  peer.send(echo, pattern(100'001));
  EXPECT_EQ(peer.listen(), close_reason::over_limit);
}

TEST(WireLimits, RequestsUnderWay) {
  service answers;
  server_settings settings = settings_of_server();
  settings.limits.requests_in_flight_max = 3;
  server_endpoint server(settings, answers);
  client_endpoint client(settings_of_client(server));
  std::vector<std::future<answer>> held;
  for (std::uint32_t i = 0; i < 3; ++i) held.push_back(client.send(hold, 0, number(i), soon()));
  ASSERT_TRUE(answers.wait_until_held(3));
  EXPECT_EQ(client.call(echo, 0, {}, in(std::chrono::milliseconds(20))).how,
            outcome::not_sent);  // no room came in time
  std::future<answer> waiting = std::async(std::launch::async, [&] { return client.call(echo, 0, number(9), soon()); });
  answers.let_go();
  EXPECT_EQ(waiting.get().how, outcome::answered);
  for (auto& each : held) EXPECT_EQ(each.get().how, outcome::answered);

  careless_peer peer(server);
  for (std::uint32_t i = 0; i < 3; ++i) peer.send(hold, number(i));
  ASSERT_TRUE(answers.wait_until_held(3));
  peer.send(echo, {});
  EXPECT_EQ(peer.listen(), close_reason::over_limit);
  answers.let_go();
}

TEST(WireLimits, BytesUnderWay) {
  service answers;
  server_settings settings = settings_of_server();
  settings.limits.frame_bytes_max = 2'000;
  settings.limits.bytes_in_flight_max = 2 * (1'000 + sizeof(frame_header));
  server_endpoint server(settings, answers);
  careless_peer peer(server);
  peer.send(hold, pattern(1'000));
  peer.send(hold, pattern(1'000));
  ASSERT_TRUE(answers.wait_until_held(2));
  answers.let_go();
  ASSERT_TRUE(peer.wait_for_answers(2));
  peer.send(hold, pattern(1'000));
  peer.send(hold, pattern(1'001));
  EXPECT_EQ(peer.listen(), close_reason::over_limit);
  answers.let_go();
}

TEST(WireLimits, BytesOfAllConnections) {
  service answers;
  server_settings settings = settings_of_server();
  settings.limits.bytes_all_max = 2 * (1'000 + sizeof(frame_header) + request_cost);
  server_endpoint server(settings, answers);
  client_endpoint first(settings_of_client(server)), second(settings_of_client(server));
  std::future<answer> a = first.send(hold, 0, pattern(1'000), soon());
  std::future<answer> b = second.send(hold, 0, pattern(1'000), soon());
  ASSERT_TRUE(answers.wait_until_held(2));
  EXPECT_EQ(first.call(echo, 0, {}, soon()).status, status_busy);
  EXPECT_EQ(second.call(echo, 0, pattern(100'000), soon()).status, status_busy);
  answers.let_go();
  EXPECT_EQ(a.get().status, status_ok);
  EXPECT_EQ(b.get().status, status_ok);
  EXPECT_EQ(first.call(echo, 0, pattern(1'000), soon()).status, status_ok);
  EXPECT_EQ(server.counters().requests_refused_busy, 2U);
}

TEST(WireLimits, EmptyRequestsAreChargedForWhatTheyTake) {
  service answers;
  server_settings settings = settings_of_server();
  settings.limits.bytes_all_max = 100 * (sizeof(frame_header) + request_cost);
  server_endpoint server(settings, answers);
  client_endpoint client(settings_of_client(server));
  std::vector<std::future<answer>> sent;
  for (int i = 0; i < 150; ++i) sent.push_back(client.send(hold, 0, {}, soon()));
  ASSERT_TRUE(answers.wait_until_held(100));
  const auto limit = soon();
  while (server.counters().requests_refused_busy < 50 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
  }
  answers.let_go();
  int served = 0;
  for (auto& each : sent) served += each.get().status == status_ok ? 1 : 0;
  EXPECT_EQ(served, 100);
  // the server gives a charge back behind the write, which the client may have read before
  while (server.counters().bytes_held != 0 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  EXPECT_EQ(server.counters().bytes_held, 0U);
}

TEST(WireLimits, AClientThatDoesNotReadIsSlowedThenCut) {
  service answers;
  server_settings settings = settings_of_server();
  settings.limits.output_bytes_slow = 1 << 20;
  settings.limits.not_reading_ms = 300;
  server_endpoint server(settings, answers);
  careless_peer peer(server);
  client_endpoint other(settings_of_client(server));
  for (int i = 0; i < 40; ++i) peer.send(fill, number(200'000));
  const auto limit = soon();
  while (server.counters().requests < 41 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  // Of 8 MB of answers a little more than one was made; the other requests wait.
  EXPECT_LE(server.counters().bytes_held, (1U << 20) + 2 * 200'100 + 100 * 100);
  EXPECT_EQ(other.call(echo, 0, number(1), soon()).how, outcome::answered);
  EXPECT_EQ(peer.listen(false), close_reason::not_reading);
  EXPECT_EQ(answers.wait_for_close(), close_reason::not_reading);
  EXPECT_EQ(other.call(echo, 0, number(1), soon()).how, outcome::answered);
  other.close(std::chrono::seconds(5));
  while (server.counters().bytes_held != 0 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  EXPECT_EQ(server.counters().bytes_held, 0U);
}

TEST(WireLimits, AClientThatReadsSlowlyGetsEverything) {
  service answers;
  server_settings settings = settings_of_server();
  settings.limits.output_bytes_slow = 1 << 20;
  server_endpoint server(settings, answers);
  careless_peer peer(server);
  for (int i = 0; i < 100; ++i) peer.send(fill, number(7'000));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(peer.wait_for_answers(100));
}

TEST(WireLimits, MoreOutputThanIsAllowedCutsTheConnection) {
  service answers;
  server_settings settings = settings_of_server();
  settings.limits.output_bytes_max = 500'000;
  server_endpoint server(settings, answers);
  careless_peer peer(server);
  for (int i = 0; i < 4; ++i) peer.send(hold, pattern(7'000));
  ASSERT_TRUE(answers.wait_until_held(4));
  answers.let_go();
  peer.send(parts, number(200));  // 67 parts of 20,000 bytes and more in one request: its queue takes 26 of them
  EXPECT_EQ(peer.listen(false), close_reason::not_reading);
}

/// Nothing of connections that are cut with answers and requests under way stays: neither what is charged, nor memory.
void cut_many(transport way, int peers, std::uint32_t more_than_fits) {
  service answers;
  server_settings settings = settings_of_server(way);
  settings.limits.output_bytes_max = 1'000'000;
  settings.limits.bytes_all_max = 8'000'000;  // fewer bytes than ten of them leave behind
  server_endpoint server(settings, answers);
  const auto cut_one = [&] {
    careless_peer peer(server, way);
    peer.send(parts, number(more_than_fits));           // on the way to the peer, and than the limit
    peer.send_pieces(hold, pattern(300'000), 100'000);  // under way when the connection is cut
    EXPECT_EQ(peer.listen(false), close_reason::not_reading);
  };
  for (int i = 0; i < peers / 4; ++i) cut_one();
  const std::uint64_t before = icecore::testing::own_memory();
  for (int i = peers / 4; i < peers; ++i) cut_one();
  EXPECT_LE(icecore::testing::own_memory(), before + 30'000'000);
  const auto limit = soon();
  while (server.counters().bytes_held != 0 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  EXPECT_EQ(server.counters().bytes_held, 0U);
  EXPECT_EQ(server.counters().requests_in_flight, 0U);
  client_endpoint other(settings_of_client(server, way));
  EXPECT_EQ(other.call(echo, 0, pattern(7'000'000), soon()).status, status_ok);
}

TEST(WireLimits, ConnectionsThatAreCutLeaveNothingOverSharedMemory) { cut_many(transport::shared_memory, 60, 400); }
TEST(WireLimits, ConnectionsThatAreCutLeaveNothingOverTcp) { cut_many(transport::tcp, 20, 2'500); }

/// A long request under way, and then silence.
TEST(WireLimits, ALongRequestArrivesInTimeOrItsConnectionIsCut) {
  service answers;
  server_settings settings = settings_of_server();
  settings.limits.frame_ms = 200;
  server_endpoint server(settings, answers);
  client_endpoint other(settings_of_client(server));
  careless_peer peer(server);
  peer.send_pieces(echo, pattern(100'000), 50'000);
  static_cast<void>(peer.listen());  // which takes this reason for its own
  EXPECT_EQ(answers.wait_for_close(), close_reason::too_slow);
  EXPECT_EQ(other.call(echo, 0, pattern(100'000), soon()).how, outcome::answered);
  EXPECT_EQ(server.counters().bytes_held, 0U);
  EXPECT_EQ(server.counters().requests_in_flight, 0U);
}

TEST(WireLimits, ALongRequestThatIsRefusedIsPassedOver) {
  service answers;
  server_settings settings = settings_of_server();
  settings.limits.bytes_all_max = 50'000;
  server_endpoint server(settings, answers);
  client_endpoint client(settings_of_client(server));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.call(echo, 0, pattern(100'000), soon()).status, status_busy);
    const answer got = client.call(echo, 0, pattern(20'000), soon());
    EXPECT_EQ(got.status, status_ok);
    EXPECT_TRUE(same(got.payload, pattern(20'000)));
  }
}

TEST(WireLimits, AnIdleConnectionIsClosedABusyOneIsNot) {
  service answers;
  server_settings settings = settings_of_server();
  settings.limits.idle_ms = 100;
  server_endpoint server(settings, answers);
  client_endpoint busy(settings_of_client(server));
  std::future<answer> held = busy.send(hold, 0, number(1), soon());
  const client_endpoint idle(settings_of_client(server));
  EXPECT_EQ(answers.wait_for_close(), close_reason::idle);
  const auto limit = soon();
  while (idle.ended() == close_reason::none && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  EXPECT_EQ(idle.ended(), close_reason::idle);
  ASSERT_TRUE(answers.wait_until_held(1));
  answers.let_go();
  EXPECT_EQ(held.get().how, outcome::answered);
}

TEST(WireLimits, HandshakesThatDoNotEndLeaveRoomForOthersInTime) {
  service answers;
  server_settings settings = settings_of_server();
  settings.limits.handshakes_max = 2;
  settings.limits.handshake_ms = 150;
  server_endpoint server(settings, answers);
  std::vector<std::unique_ptr<raw_peer>> silent;
  for (int i = 0; i < 6; ++i) silent.push_back(std::make_unique<raw_peer>(server));
  client_endpoint client(settings_of_client(server));
  EXPECT_EQ(client.call(echo, 0, number(1), soon()).how, outcome::answered);
}

}  // namespace
}  // namespace icecore::wire::testing
