// A process that is killed, on either side, over each transport.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "wire_support.hpp"

extern char** environ;

namespace icecore::wire::testing {
namespace {

class peer_process {
 public:
  peer_process(const std::string& role, transport way, std::uint16_t port = 0) {
    int pipe_ends[2];
    if (pipe2(pipe_ends, O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 1);
    std::string words[] = {ICECORE_WIRE_PEER, role, way == transport::tcp ? "tcp" : "shared_memory",
                           std::to_string(port)};
    char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
    EXPECT_EQ(posix_spawn(&pid_, ICECORE_WIRE_PEER, &actions, nullptr, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(pipe_ends[1]);
    output_ = fdopen(pipe_ends[0], "r");
  }
  peer_process(const peer_process&) = delete;
  peer_process& operator=(const peer_process&) = delete;
  ~peer_process() {
    kill_it();
    if (output_ != nullptr) std::fclose(output_);
  }

  /// The next number it tells; 0 if it has ended.
  std::uint16_t told() {
    unsigned number = 0;
    return std::fscanf(output_, "%u", &number) == 1 ? static_cast<std::uint16_t>(number) : std::uint16_t{0};
  }
  void kill_it() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
  std::FILE* output_ = nullptr;
};

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
