// Requests and answers between a server and clients that behave, over each transport.
#include <gtest/gtest.h>

#include "wire_support.hpp"

namespace icecore::wire::testing {
namespace {

class WireCalls : public ::testing::TestWithParam<transport> {
 protected:
  service answers_;
  server_endpoint server_{settings_of_server(GetParam()), answers_};
};

INSTANTIATE_TEST_SUITE_P(Over, WireCalls,
                         ::testing::Values(transport::shared_memory, transport::tcp, transport::automatic),
                         [](const auto& way) {
                           return way.param == transport::tcp             ? "Tcp"
                                  : way.param == transport::shared_memory ? "SharedMemory"
                                                                          : "Automatic";
                         });

TEST_P(WireCalls, PayloadsOfEverySizeComeBackWhole) {
  client_endpoint client(settings_of_client(server_, GetParam()));
  EXPECT_EQ(client.told().group, "group 1");
  for (const std::size_t bytes : {0U, 1U, 92U, 93U, 4095U, 8191U, 8192U, 8193U, 65'536U, 1U << 20U, 64U << 20U}) {
    const byte_buffer sent = pattern(bytes);
    const answer got = client.call(echo, 3, byte_buffer(sent.view()), soon());
    ASSERT_EQ(got.how, outcome::answered) << bytes;
    EXPECT_EQ(got.status, status_ok);
    EXPECT_TRUE(same(got.payload, sent)) << bytes;
  }
}

TEST_P(WireCalls, AnswersFromTwoPlacesComeWhole) {
  client_endpoint client(settings_of_client(server_, GetParam()));
  // The first place may be empty, and end in a piece or behind one.
  for (const std::uint32_t bytes : {1U, 3U, 7'999U, 8'000U, 8'001U, 12'000U, 23'999U, 24'000U, 24'001U, 1U << 20U}) {
    const answer got = client.call(fill, 0, number(bytes), soon());
    ASSERT_EQ(got.how, outcome::answered) << bytes;
    EXPECT_TRUE(same(got.payload, pattern(bytes))) << bytes;
  }
}

TEST_P(WireCalls, TenThousandRequestsUnderWayAreEachAnsweredOnce) {
  client_endpoint client(settings_of_client(server_, GetParam()));
  std::vector<std::atomic<int>> answered(10'000);
  std::atomic<int> wrong = 0;
  for (std::uint32_t i = 0; i < answered.size(); ++i) {
    client.start(
        echo, 0, number(i),
        [&, i](answer&& got) {
          if (got.how != outcome::answered || got.more || !same(got.payload, number(i))) ++wrong;
          ++answered[i];
        },
        soon());
  }
  ASSERT_TRUE(client.drain(soon()));
  client.close(std::chrono::seconds(5));
  EXPECT_EQ(wrong, 0);
  for (const auto& each : answered) ASSERT_EQ(each, 1);
  EXPECT_EQ(server_.counters().requests, 10'000U);
}

TEST_P(WireCalls, PartsOfAnAnswerComeInOrderThoughLongOnesTravelSlower) {
  client_endpoint client(settings_of_client(server_, GetParam()));
  std::uint32_t next = 0;
  bool last = false;
  client.start(
      parts, 0, number(300),
      [&](answer&& got) {
        EXPECT_EQ(got.how, outcome::answered);
        EXPECT_FALSE(last);
        last = !got.more;
        if (last) return;
        EXPECT_TRUE(same(got.payload, pattern(next % 3 == 0 ? 20'000 : next, next))) << next;
        ++next;
      },
      soon());
  ASSERT_TRUE(client.drain(soon()));
  client.close(std::chrono::seconds(5));
  EXPECT_TRUE(last);
  EXPECT_EQ(next, 300U);
  client_endpoint other(settings_of_client(server_, GetParam()));
  const answer whole = other.call(parts, 0, number(4), soon());
  EXPECT_EQ(whole.payload.size(), 20'000U + 1 + 2 + 20'000);
}

TEST_P(WireCalls, ManyThreadsShareOneEndpoint) {
  client_endpoint client(settings_of_client(server_, GetParam()));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (unsigned t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint32_t i = 0; i < 300; ++i) {
        const std::size_t bytes = i % 50 == 0 ? 100'000 : 20;
        const std::uint16_t what = i % 40 == 0 ? elsewhere : echo;
        if (i % 3 == 0) {
          if (!same(client.send(what, 0, pattern(bytes, t), soon()).get().payload, pattern(bytes, t))) ++wrong;
        } else if (!same(client.call(what, 0, pattern(bytes, t), soon()).payload, pattern(bytes, t))) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(WireCalls, AnswersComeFromOtherThreadsAndLate) {
  client_endpoint client(settings_of_client(server_, GetParam()));
  std::future<answer> held = client.send(hold, 0, pattern(50'000), soon());
  ASSERT_TRUE(answers_.wait_until_held(1));
  EXPECT_EQ(client.call(elsewhere, 0, pattern(9), soon()).how, outcome::answered);
  EXPECT_EQ(server_.counters().requests_in_flight, 1U);
  answers_.let_go();
  EXPECT_TRUE(same(held.get().payload, pattern(50'000)));
}

TEST_P(WireCalls, ARequestThatIsDroppedIsAnswered) {
  client_endpoint client(settings_of_client(server_, GetParam()));
  const answer got = client.call(drop, 0, {}, soon());
  EXPECT_EQ(got.how, outcome::answered);
  EXPECT_EQ(got.status, status_dropped);
}

TEST_P(WireCalls, FramesThatNobodyAskedForArrive) {
  client_settings settings = settings_of_client(server_, GetParam());
  std::promise<byte_buffer> arrived;
  settings.on_unasked = [&](std::uint16_t operation, std::uint16_t status, byte_buffer&& payload) {
    EXPECT_EQ(operation, push);
    EXPECT_EQ(status, 7);
    arrived.set_value(std::move(payload));
  };
  client_endpoint client(settings);
  EXPECT_EQ(client.call(push, 0, pattern(70), soon()).how, outcome::answered);
  EXPECT_TRUE(same(arrived.get_future().get(), pattern(70)));
}

TEST_P(WireCalls, ADeadlineEndsTheWaitAndTheConnectionGoesOn) {
  client_endpoint client(settings_of_client(server_, GetParam()));
  EXPECT_EQ(client.call(hold, 0, number(1), in(std::chrono::milliseconds(30))).how, outcome::timed_out);
  EXPECT_EQ(client.send(hold, 0, number(2), in(std::chrono::milliseconds(30))).get().how, outcome::timed_out);
  EXPECT_TRUE(same(client.call(echo, 0, number(3), soon()).payload, number(3)));
  answers_.let_go();  // late answers are nobody's
  EXPECT_TRUE(same(client.call(echo, 0, number(4), soon()).payload, number(4)));
  EXPECT_TRUE(client.drain(soon()));
  EXPECT_EQ(client.ended(), close_reason::none);
}

TEST_P(WireCalls, ACompletionMayCall) {
  client_endpoint client(settings_of_client(server_, GetParam()));
  std::promise<answer> inner;
  client.start(
      echo, 0, number(1), [&](answer&&) { inner.set_value(client.call(echo, 0, number(2), soon())); }, soon());
  EXPECT_TRUE(same(inner.get_future().get().payload, number(2)));
}

TEST_P(WireCalls, WithoutBackgroundProgressTheCallerPolls) {
  client_settings settings = settings_of_client(server_, GetParam());
  settings.background_progress = false;
  client_endpoint client(settings);
  bool done = false;
  client.start(
      echo, 0, number(1), [&](answer&& got) { done = got.how == outcome::answered; }, soon());
  const auto limit = soon();
  while (!done && std::chrono::steady_clock::now() < limit) client.progress();
  EXPECT_TRUE(done);
}

TEST_P(WireCalls, WhoWaitsForACompletionDrives) {
  client_settings settings = settings_of_client(server_, GetParam());
  settings.background_progress = false;
  client_endpoint client(std::move(settings));
  std::atomic<bool> done = false;
  client.start(
      echo, 0, number(1), [&](answer&& got) { done = got.how == outcome::answered; }, soon());
  EXPECT_TRUE(client.wait([&] { return done.load(); }, soon()));
  EXPECT_FALSE(client.wait([] { return false; }, in(std::chrono::milliseconds(20))));
}

TEST_P(WireCalls, WhoWaitsForACompletionIsWokenByWhoeverDrives) {
  client_endpoint client(settings_of_client(server_, GetParam()));
  std::thread drives([&] { EXPECT_EQ(client.call(hold, 0, {}, soon()).how, outcome::answered); });
  EXPECT_TRUE(answers_.wait_until_held(1));
  std::atomic<bool> done = false;
  const auto slowly = [&](answer&& got) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // who waits looks meanwhile, in vain
    done = got.how == outcome::answered;
  };
  client.start(echo, 0, number(1), slowly, soon());
  EXPECT_TRUE(client.wait([&] { return done.load(); }, soon()));
  answers_.let_go();
  drives.join();
}

TEST_P(WireCalls, StoppingAnswersWhatIsUnderWayAndTellsClients) {
  client_endpoint client(settings_of_client(server_, GetParam()));
  std::future<answer> held = client.send(hold, 0, pattern(20'000), soon());
  ASSERT_TRUE(answers_.wait_until_held(1));
  std::thread stopping([&] { server_.stop(std::chrono::seconds(20)); });
  while (client.call(echo, 0, number(1), soon()).how == outcome::answered) {
  }  // until the goodbye has arrived, nothing is sent any more
  answers_.let_go();
  EXPECT_TRUE(same(held.get().payload, pattern(20'000)));
  stopping.join();
  EXPECT_EQ(client.call(echo, 0, number(1), soon()).how, outcome::not_sent);
  EXPECT_EQ(client.ended(), close_reason::stopping);
  EXPECT_THROW(client_endpoint(settings_of_client(server_, GetParam())), failure);
}

TEST_P(WireCalls, StoppingCutsWhoeverStaysUntilTheLimit) {
  client_endpoint client(settings_of_client(server_, GetParam()));
  std::future<answer> held = client.send(hold, 0, number(1), soon());
  ASSERT_TRUE(answers_.wait_until_held(1));
  server_.stop(std::chrono::milliseconds(50));
  EXPECT_EQ(held.get().how, outcome::broken);
  answers_.let_go();  // too late, to no effect
}

}  // namespace
}  // namespace icecore::wire::testing
