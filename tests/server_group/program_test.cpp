// The program icecore-server-mpi: groups of processes that serve, write snapshots, are killed, and are restored on
// other numbers of servers.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "icecore/remote.hpp"

namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
namespace remote = icecore::remote;

constexpr const char* token = "a token of tests";

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A job of the program on so many ranks, in a process group of its own.
class job {
 public:
  job(int ranks, std::vector<std::string> arguments, const fs::path& output) {
    std::vector<std::string> all{ICECORE_MPIEXEC, ICECORE_MPIEXEC_FLAG, std::to_string(ranks), ICECORE_SERVER_MPI};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& each : all) pointers.push_back(each.data());
    pointers.push_back(nullptr);
    posix_spawnattr_t how;
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&how, 0);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    EXPECT_EQ(posix_spawnp(&process_, ICECORE_MPIEXEC, &files, &how, pointers.data(), environ), 0);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&how);
  }
  ~job() {
    if (process_ > 0) kill_all();
  }
  job(const job&) = delete;
  job& operator=(const job&) = delete;

  int wait() {
    int status = -1;
    EXPECT_EQ(::waitpid(std::exchange(process_, 0), &status, 0) > 0, true);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // One server that is asked to stop stops all. (Launchers answer the signal in ways of their own.)
  int stop() {
    for (const pid_t child : children_of(process_)) {
      if (text_of("/proc/" + std::to_string(child) + "/comm").find("icecore-server") == std::string::npos) continue;
      ::kill(child, SIGTERM);
      break;
    }
    return wait();
  }
  // The ranks are in process groups that the launcher chose: they are its children.
  void kill_all() {
    for (const pid_t child : children_of(process_)) ::kill(child, SIGKILL);
    ::kill(-process_, SIGKILL);
    wait();
  }

 private:
  static std::vector<pid_t> children_of(pid_t parent) {
    std::vector<pid_t> found;
    for (const auto& each : fs::directory_iterator("/proc")) {
      const std::string name = each.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      const std::string stat = text_of(each.path() / "stat");
      const std::size_t end = stat.rfind(')');
      if (end == std::string::npos || end + 4 > stat.size()) continue;
      if (std::strtol(stat.c_str() + end + 4, nullptr, 10) != parent) continue;
      found.push_back(static_cast<pid_t>(std::stol(name)));
      for (const pid_t below : children_of(found.back())) found.push_back(below);
    }
    return found;
  }
  pid_t process_ = 0;
};

class GroupProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string made = "/dev/shm/icecore-group-program-XXXXXX";
    ASSERT_NE(::mkdtemp(made.data()), nullptr);
    folder_ = made;
    std::ofstream(folder_ / "token") << token;
  }
  void TearDown() override {
    for (const char* log : {"restore.out", "serve.out", "log.0"}) {
      if (HasFailure()) std::cout << "---- " << log << '\n' << text_of(folder_ / log);
    }
    fs::remove_all(folder_);
  }

  std::unique_ptr<job> serve(int ranks, const fs::path& data) {
    std::error_code ignored;
    for (int r = 0; r < 8; ++r) fs::remove(folder_ / ("log." + std::to_string(r)), ignored);
    return std::make_unique<job>(
        ranks,
        std::vector<std::string>{"--data", data, "--listen-grpc", "", "--listen-http", "", "--listen-ucx",
                                 "127.0.0.1:0", "--ucx-token-file", folder_ / "token", "--log-file", folder_ / "log",
                                 "--limits-free-disk-bytes", "0 B"},
        folder_ / "serve.out");
  }
  // Where the rank serves, once it does: its log tells.
  [[nodiscard]] std::string address(int rank) const {
    const std::string sign = R"("door":"ucx","address":")";
    for (int tries = 0; tries < 1200; ++tries) {
      const std::string log = text_of(folder_ / ("log." + std::to_string(rank)));
      if (const std::size_t at = log.find(sign); at != std::string::npos) {
        const std::size_t begin = at + sign.size();
        return "ucx://" + log.substr(begin, log.find('"', begin) - begin);
      }
      std::this_thread::sleep_for(50ms);
    }
    ADD_FAILURE() << "the server did not begin to serve";
    return "ucx://127.0.0.1:1";
  }
  std::unique_ptr<job> restore(int ranks, const fs::path& to) {
    return std::make_unique<job>(ranks, std::vector<std::string>{"--restore", folder_ / "snapshot", "--data", to},
                                 folder_ / "restore.out");
  }
  static constexpr int keys = 500;
  static void look_at(remote::client& c) {
    remote::store store = c.open("one");
    EXPECT_EQ(store.at("first").size(), static_cast<std::uint64_t>(keys));
    EXPECT_EQ(store.latest().size(), static_cast<std::uint64_t>(keys));
    for (int i = 0; i < keys; i += 17) {
      EXPECT_EQ(store.find("key" + std::to_string(i), "first")->bytes(), "1");
      EXPECT_EQ(store.find("key" + std::to_string(i))->bytes(), "2");
    }
  }

  fs::path folder_;
};

TEST_F(GroupProgram, is_restored_on_other_numbers_of_servers_and_killed_meanwhile) {
  {
    const auto servers = serve(2, folder_ / "data");
    remote::client c(address(1), {.token = token});
    remote::store store = c.create("one", {.rule = remote::version_rule::tag});
    for (int i = 0; i < keys; ++i) store.insert("key" + std::to_string(i), "1");
    store.tag("first");
    for (int i = 0; i < keys; ++i) store.insert("key" + std::to_string(i), "2");
    c.write_snapshot((folder_ / "snapshot").string());
    EXPECT_EQ(servers->stop(), 0);
  }
  // Kills in the middle: nothing is there, or all of it is.
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(restore(3, folder_ / "timed")->wait(), 0) << text_of(folder_ / "restore.out");
  const auto takes = std::chrono::steady_clock::now() - begin;
  constexpr int rounds = 4;
  for (int round = 1; round <= rounds; ++round) {
    const auto running = restore(3, folder_ / "killed");
    std::this_thread::sleep_for(takes * round / rounds);
    running->kill_all();
    if (!fs::exists(folder_ / "killed")) continue;
    const auto servers = serve(3, folder_ / "killed");
    remote::client c(address(0), {.token = token});
    look_at(c);
    EXPECT_EQ(servers->stop(), 0);
    fs::remove_all(folder_ / "killed");
  }
  for (const int ranks : {1, 3}) {
    const fs::path to = folder_ / ("on" + std::to_string(ranks));
    EXPECT_EQ(restore(ranks, to)->wait(), 0) << text_of(folder_ / "restore.out");
    {
      const auto servers = serve(ranks, to);
      remote::client c(address(ranks - 1), {.token = token});
      look_at(c);
      c.open("one").insert("more", "1");
      servers->kill_all();  // and what was acknowledged survives that
    }
    const auto servers = serve(ranks, to);
    remote::client c(address(0), {.token = token});
    EXPECT_EQ(c.open("one").find("more")->bytes(), "1");
    EXPECT_EQ(servers->stop(), 0);
  }
  EXPECT_NE(restore(1, folder_ / "on1")->wait(), 0) << "something is there";
  EXPECT_NE(text_of(folder_ / "restore.out").find("something is there already"), std::string::npos);
}

}  // namespace
