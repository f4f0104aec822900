// Peers that stop or give up in the middle of something long, and a server that has no memory for something long.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>
#include <vector>

#include "careless_peer.hpp"
#include "support/own_memory.hpp"

namespace icecore::wire::testing {
namespace {

class WireUnlucky : public ::testing::TestWithParam<transport> {};

INSTANTIATE_TEST_SUITE_P(Over, WireUnlucky,
                         ::testing::Values(transport::shared_memory, transport::tcp, transport::automatic),
                         [](const auto& way) {
                           return way.param == transport::tcp         ? "Tcp"
                                  : way.param == transport::automatic ? "Automatic"
                                                                      : "SharedMemory";
                         });

/// The answer of which a part is with UCX when its connection is cut is given up, too, though UCX may still read that
/// part.
TEST_P(WireUnlucky, ALongAnswerThatACutConnectionDidNotTakeIsGivenUp) {
  constexpr std::uint32_t answer_bytes = 40'000'000, peers = 6;  // so long that malloc keeps none for later
  service answers;
  server_settings settings = settings_of_server(GetParam());
  settings.limits.not_reading_ms = 1'500;  // longer than the answers take to make: UCX has a part by then
  server_endpoint server(settings, answers);
  std::vector<std::unique_ptr<careless_peer>> stopped;
  for (std::uint32_t i = 0; i < peers; ++i) stopped.push_back(std::make_unique<careless_peer>(server, GetParam()));
  const std::uint64_t before = icecore::testing::own_memory();
  for (const auto& each : stopped) each->send(fill, number(answer_bytes));
  for (const auto& each : stopped) EXPECT_EQ(each->listen(false), close_reason::not_reading);
  for (std::uint32_t i = 0; i < peers; ++i) EXPECT_EQ(answers.wait_for_close(), close_reason::not_reading);
  EXPECT_EQ(server.counters().bytes_held, 0U);
  if constexpr (!icecore::testing::freed_memory_is_counted) {  // nor would pages that were given back be left out
    EXPECT_LE(icecore::testing::own_memory(), before + 2 * answer_bytes);
  }
  client_endpoint other(settings_of_client(server, GetParam()));
  EXPECT_TRUE(same(other.call(fill, 0, number(300'000), soon()).payload, pattern(300'000)));
}

/// What a client has given up on is sent and fetched to its end, or its server would think that it has stopped.
TEST_P(WireUnlucky, AClientThatGaveUpOnALongCallKeepsItsConnection) {
  service answers;
  server_settings settings = settings_of_server(GetParam());
  settings.limits.frame_ms = settings.limits.not_reading_ms = 1'000;
  server_endpoint server(settings, answers);
  for (const bool long_answer : {false, true}) {
    client_endpoint client(settings_of_client(server, GetParam()));
    byte_buffer payload = long_answer ? number(20'000'000) : pattern(20'000'000);
    const answer given_up =
        client.call(long_answer ? fill : drop, 0, std::move(payload), in(std::chrono::milliseconds(1)));
    EXPECT_EQ(given_up.how, outcome::timed_out);
    for (const auto limit = soon(); std::chrono::steady_clock::now() < limit && client.ended() == close_reason::none;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const server_counters& now = server.counters();
      if (now.requests == 1U + 2 * long_answer && now.requests_in_flight == 0 && now.bytes_held == 0) break;
    }
    EXPECT_EQ(client.ended(), close_reason::none) << "long answer: " << long_answer;
    EXPECT_EQ(client.call(echo, 0, number(1), soon()).status, status_ok);
  }
}

/// A connection whose endpoint waits for UCX when the server ends.
TEST_P(WireUnlucky, AServerThatEndsKeepsNoConnection) {
  struct kept final : frame_handler {
    admission admit(const hello&, const std::string&) override { return {.accepted = true}; }
    void on_open(const std::shared_ptr<connection>& opened) override { seen = opened; }
    void on_request(request&& asked) override {
      if (asked.operation() == fill) return asked.answer(status_ok, pattern(20'000'000));
      asked.answer(status_ok);
    }
    std::weak_ptr<connection> seen;
  } answers;
  server_settings settings = settings_of_server(GetParam());
  settings.limits.not_reading_ms = 500;
  auto server = std::make_unique<server_endpoint>(settings, answers);
  careless_peer peer(*server, GetParam());
  peer.send(fill, {});
  EXPECT_EQ(peer.listen(false), close_reason::not_reading);
  server.reset();
  EXPECT_TRUE(answers.seen.expired());
}

#if !defined(ICECORE_TESTS_ADDRESS_SANITIZER) && !defined(__SANITIZE_THREAD__)
/// A server without the memory for a long request says so, and goes on.
TEST(WireWithoutMemory, ALongRequestIsRefusedWithStatusBusy) {
  service answers;
  server_settings settings = settings_of_server();
  settings.limits.frame_bytes_max = 150'000'000;  // more than malloc reserves ahead for a thread
  server_endpoint server(settings, answers);
  client_endpoint client(settings_of_client(server));
  ASSERT_EQ(client.call(echo, 0, number(1), soon()).how, outcome::answered);
  byte_buffer payload = pattern(150'000'000);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  std::ifstream sizes("/proc/self/statm");
  std::uint64_t pages = 0;
  sizes >> pages;
  const rlimit little{.rlim_cur = pages * 4096 + 100'000'000, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &little), 0);
  const answer refused = client.call(echo, 0, std::move(payload), soon());
  const answer small = client.call(echo, 0, pattern(100'000), soon());
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(client.ended(), close_reason::none);
  EXPECT_EQ(refused.status, status_busy);
  EXPECT_TRUE(same(small.payload, pattern(100'000)));
  EXPECT_EQ(server.counters().bytes_held, 0U);
  EXPECT_EQ(server.counters().requests_in_flight, 0U);
}
#endif

}  // namespace
}  // namespace icecore::wire::testing
