// The life of the process: one server a folder, signals, systemd's notices, the limit of stopping, descriptors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>

#include "icecore/error.hpp"
#include "run/lifecycle/data_lock.hpp"
#include "run/lifecycle/descriptors.hpp"
#include "run/lifecycle/lifecycle.hpp"
#include "run/lifecycle/service_manager.hpp"

namespace icecore::server {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;
namespace fs = std::filesystem;

class Folder : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  const fs::path folder_ = fs::temp_directory_path() / ("icecore_lifecycle_test_" + std::to_string(::getpid()));
};

using DataLock = Folder;

std::string refusal(const fs::path& folder) {
  try {
    const data_lock second(folder);
    return {};
  } catch (const error& told) {
    EXPECT_EQ(told.code(), errc::locked);
    return told.message();
  }
}

/// A child that locks the folder, says so, and lives until told.
class other_server {
 public:
  explicit other_server(const fs::path& folder) {
    int said[2];
    if (::pipe(said) != 0) throw std::runtime_error("pipe");
    process_ = ::fork();
    if (process_ == 0) {
      ::close(said[0]);
      try {
        const data_lock held(folder);
        (void)!::write(said[1], "l", 1);
        for (;;) ::pause();
      } catch (const std::exception&) {
      }
      ::_exit(1);
    }
    ::close(said[1]);
    char locked = 0;
    const bool said_so = ::read(said[0], &locked, 1) == 1;
    ::close(said[0]);
    if (!said_so) throw std::runtime_error("the child did not get the lock");
  }
  ~other_server() { kill(); }
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }
  [[nodiscard]] pid_t process() const { return process_; }

 private:
  pid_t process_;
};

TEST_F(DataLock, a_second_server_is_refused_and_told_the_first_one_s_number) {
  other_server first(folder_);
  EXPECT_EQ(refusal(folder_), folder_.string() + ": another icecore-server, process " +
                                  std::to_string(first.process()) +
                                  ", uses this folder; stop it, or give --data another folder");
}

TEST_F(DataLock, a_killed_server_leaves_no_lock) {
  other_server first(folder_);
  first.kill();
  EXPECT_EQ(refusal(folder_), "");
}

TEST_F(DataLock, a_number_without_a_lock_does_not_count) {
  std::ofstream(folder_ / "server.lock") << ::getpid() << "\nand more that is longer than the number\n";
  const data_lock held(folder_);
  std::string line, rest;
  std::ifstream in(folder_ / "server.lock");
  std::getline(in, line);
  EXPECT_EQ(line, std::to_string(::getpid()));
  EXPECT_FALSE(std::getline(in, rest));
}

TEST_F(DataLock, two_locks_of_one_process_exclude_each_other) {
  {
    const data_lock held(folder_);
    EXPECT_THAT(refusal(folder_), HasSubstr("process " + std::to_string(::getpid()) + ","));
  }
  EXPECT_EQ(refusal(folder_), "");
}

TEST_F(DataLock, the_folder_is_made_for_its_owner_alone) {
  const mode_t before = ::umask(0);
  { const data_lock held(folder_ / "a" / "b"); }
  ::umask(before);
  EXPECT_EQ(fs::status(folder_ / "a" / "b").permissions(), fs::perms(0700));
  EXPECT_EQ(fs::status(folder_ / "a" / "b" / "server.lock").permissions(), fs::perms(0600));
}

TEST_F(DataLock, a_folder_that_cannot_be_made_is_named) {
  std::ofstream(folder_ / "file") << "x";
  try {
    const data_lock held(folder_ / "file" / "below");
    FAIL();
  } catch (const error& told) {
    EXPECT_EQ(told.code(), errc::io);
    EXPECT_THAT(told.message(), HasSubstr("file/below: the folder cannot be made: Not a directory"));
  }
  fs::create_symlink("/dev/null", folder_ / "server.lock");
  EXPECT_THROW(data_lock{folder_}, error);  // and nothing is written through a link
}

/// As an administrator or a launcher sends it: one that this process sends itself means another thing
/// (process_signals.hpp).
void signal_from_outside(int number) {
  const pid_t here = ::getpid();
  const pid_t sender = ::fork();
  if (sender == 0) {
    ::kill(here, number);
    ::_exit(0);
  }
  ::waitpid(sender, nullptr, 0);
}

class Lifecycle : public Folder {
 protected:
  ending run(std::chrono::microseconds limit) {
    return run_until_stopped(signals_,
                             {.stop = stop_,  // a copy: its thread may go on after the test
                              .reopen = [this] { reopened_.set_value(); },
                              .unwell = [this] { return unwell_(); },
                              .report =
                                  [this](std::string_view event, std::string_view detail) {
                                    events_.push_back(std::string(event) + ": " + std::string(detail));
                                  }},
                             limit);
  }

  process_signals signals_;
  std::function<void(std::chrono::steady_clock::time_point)> stop_ = [](auto) {};
  std::function<std::string()> unwell_ = [] { return std::string(); };
  std::promise<void> reopened_;
  std::vector<std::string> events_;
};

TEST_F(Lifecycle, sigterm_and_sigint_stop_cleanly) {
  for (const int signal : {SIGTERM, SIGINT}) {
    std::chrono::steady_clock::time_point told;
    stop_ = [&](auto deadline) { told = deadline; };
    const auto before = std::chrono::steady_clock::now();
    signal_from_outside(signal);
    EXPECT_EQ(run(10min), ending::clean);
    EXPECT_GE(told, before + 10min);
    EXPECT_LE(told, std::chrono::steady_clock::now() + 10min);
  }
  EXPECT_THAT(events_, Contains("server.stopping: a signal asked for it"));
  EXPECT_EQ(exit_of(ending::clean), server_exit::clean);
}

TEST_F(Lifecycle, a_second_signal_ends_it_at_once) {
  static std::promise<void> release;  // the thread goes on after the test's frame
  stop_ = [](auto) {
    signal_from_outside(SIGTERM);
    release.get_future().wait();
  };
  signal_from_outside(SIGTERM);
  EXPECT_EQ(run(10min), ending::cut_short_by_signal);
  EXPECT_EQ(exit_of(ending::cut_short_by_signal), server_exit::cut_short);
  release.set_value();
}

TEST_F(Lifecycle, stopping_ends_when_the_limit_has_passed) {
  static std::promise<void> release;
  stop_ = [](auto) { release.get_future().wait(); };
  signal_from_outside(SIGTERM);
  EXPECT_EQ(run(50ms), ending::cut_short_by_limit);
  EXPECT_THAT(events_, Contains(HasSubstr("server.shutdown_limit has passed")));
  release.set_value();
}

TEST_F(Lifecycle, a_stop_that_fails_is_told) {
  stop_ = [](auto) { throw std::runtime_error("a store could not be closed"); };
  signal_from_outside(SIGTERM);
  EXPECT_EQ(run(10min), ending::failed);
  EXPECT_THAT(events_, Contains("server.stop_failed: a store could not be closed"));
}

TEST_F(Lifecycle, sighup_opens_the_log_anew_and_the_server_goes_on) {
  std::thread outside([&] {
    signal_from_outside(SIGHUP);
    reopened_.get_future().wait();
    signal_from_outside(SIGTERM);
  });
  EXPECT_EQ(run(10min), ending::clean);
  outside.join();
}

TEST_F(Lifecycle, writing_to_a_closed_pipe_is_an_error_and_no_signal) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  EXPECT_EQ(::write(ends[1], "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  ::close(ends[1]);
}

/// The socket on which systemd would listen.
class Systemd : public Lifecycle {
 protected:
  void SetUp() override {
    Lifecycle::SetUp();
    socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = (folder_ / "notify").string();
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const timeval limit{30, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
    if (!service_manager::is_there()) GTEST_SKIP() << "this build has no libsystemd";
  }
  void TearDown() override {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
    ::close(socket_);
    Lifecycle::TearDown();
  }
  [[nodiscard]] std::string notice() const {
    char text[4096];
    const ssize_t got = ::recv(socket_, text, sizeof text, 0);
    return got < 0 ? std::string() : std::string(text, static_cast<std::size_t>(got));
  }
  int socket_ = -1;
};

TEST_F(Systemd, is_told_what_happens) {
  service_manager manager;
  manager.starting("opening\nREADY=1", 20s);
  EXPECT_EQ(notice(), "STATUS=opening READY=1\nEXTEND_TIMEOUT_USEC=20000000");
  manager.ready("serving 3 databases");
  EXPECT_EQ(notice(), "READY=1\nSTATUS=serving 3 databases");
  signal_from_outside(SIGTERM);
  EXPECT_EQ(run(30s), ending::clean);
  EXPECT_EQ(notice(), "STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=35000000");
}

TEST_F(Systemd, watchdog_hears_from_a_server_that_is_well) {
  ::setenv("WATCHDOG_USEC", "20000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  EXPECT_EQ(service_manager::watchdog_interval(), 20ms);
  auto running = std::async(std::launch::async, [&] { return run(10min); });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(notice(), "WATCHDOG=1");
  signal_from_outside(SIGTERM);
  EXPECT_EQ(running.get(), ending::clean);
}

TEST_F(Systemd, watchdog_hears_nothing_from_a_server_that_is_not_well) {
  ::setenv("WATCHDOG_USEC", "20000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  std::promise<void> asked_often;
  int asked = 0;
  unwell_ = [&] {
    if (++asked == 3) asked_often.set_value();
    return std::string("the applier stands still");
  };
  auto running = std::async(std::launch::async, [&] { return run(10min); });
  asked_often.get_future().wait();
  signal_from_outside(SIGTERM);
  EXPECT_EQ(running.get(), ending::clean);
  EXPECT_THAT(notice(), StartsWith("STOPPING=1"));
  EXPECT_THAT(events_, Contains("server.unwell: the applier stands still"));
}

TEST_F(Systemd, watchdog_of_another_process_is_not_ours) {
  ::setenv("WATCHDOG_USEC", "20000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getppid()).c_str(), 1);
  EXPECT_EQ(service_manager::watchdog_interval(), std::nullopt);
}

TEST(Descriptors, the_limit_is_raised_as_far_as_it_can_be) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(raise_descriptor_limit(200), std::nullopt);
  rlimit now{};
  ::getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_EQ(now.rlim_cur, 200U);
  EXPECT_EQ(raise_descriptor_limit(100), std::nullopt);  // and never lowered
  ::getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_EQ(now.rlim_cur, 200U);
  if (before.rlim_max != RLIM_INFINITY) {
    const auto told = raise_descriptor_limit(before.rlim_max + 1);
    ASSERT_TRUE(told.has_value());
    EXPECT_THAT(*told, HasSubstr("may need " + std::to_string(before.rlim_max + 1)));
    ::getrlimit(RLIMIT_NOFILE, &now);
    EXPECT_EQ(now.rlim_cur, before.rlim_max);
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  configuration c;
  c.limits.connections = 100;
  c.limits.databases = 10;
  EXPECT_GE(descriptors_needed(c), 110U);
}

}  // namespace
}  // namespace icecore::server
