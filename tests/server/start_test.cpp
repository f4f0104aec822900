// A server that starts: what probes are told until all is open. The start is held up by the password of root, which
// comes from a pipe: the server opens it to check its configuration, and again when the databases are open.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "http_get.hpp"
#include "support/scratch.hpp"

namespace icecore::server {
namespace {

using namespace std::chrono_literals;

template <typename Condition>
bool eventually(Condition holds) {
  for (const auto until = std::chrono::steady_clock::now() + 60s; std::chrono::steady_clock::now() < until;
       std::this_thread::sleep_for(5ms)) {
    if (holds()) return true;
  }
  return false;
}

class Start : public ::testing::Test {
 protected:
  Start() {
    EXPECT_EQ(::mkfifo((folder_ / "password").c_str(), 0600), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(::open((folder_ / "log").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
      ::execl(ICECORE_SERVER, "icecore-server", "--data", (folder_ / "data").c_str(), "--listen-grpc", "127.0.0.1:0",
              "--listen-http", "127.0.0.1:0", "--access-users", "true", "--access-initial-administrator-password-file",
              (folder_ / "password").c_str(), static_cast<char*>(nullptr));
      std::_Exit(127);
    }
  }
  ~Start() override {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  /// The member of the first event of this name; empty if there is none.
  [[nodiscard]] std::string told(const std::string& event, const std::string& member) const {
    std::ifstream in(folder_ / "log");
    for (std::string line; std::getline(in, line);) {
      const auto read = nlohmann::json::parse(line, nullptr, false);
      if (read.is_object() && read.value("event", "") == event) return read.value(member, "");
    }
    return {};
  }
  [[nodiscard]] std::string ready() const { return testing::http_get(told("server.starting", "http"), "/readyz"); }
  /// Gives the password to the next that opens the pipe.
  [[nodiscard]] bool gives_password() const {
    const int pipe = ::open((folder_ / "password").c_str(), O_WRONLY | O_NONBLOCK);
    if (pipe < 0) return false;
    const bool given = ::write(pipe, "the password\n", 13) == 13;
    ::close(pipe);
    return given;
  }

  icecore::testing::scratch folder_;
  pid_t pid_ = 0;
};

TEST_F(Start, readyz_says_that_the_server_starts_and_then_that_it_is_ready) {
  ASSERT_TRUE(eventually([&] { return gives_password(); })) << "to whoever checks the configuration";
  ASSERT_TRUE(eventually([&] { return !told("server.starting", "http").empty(); }));
  const std::string before = ready();
  EXPECT_TRUE(before.starts_with("HTTP/1.1 503 ")) << before;
  EXPECT_NE(before.find("the server starts"), std::string::npos) << before;
  ASSERT_TRUE(eventually([&] { return gives_password() || !told("server.listening", "address").empty(); }));
  ASSERT_TRUE(eventually([&] { return !told("server.listening", "address").empty(); }));
  const std::string after = ready();
  EXPECT_TRUE(after.starts_with("HTTP/1.1 200 ")) << after;
}

}  // namespace
}  // namespace icecore::server
