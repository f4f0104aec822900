// icecore-server as a process of its own, for tests that kill it, stop it, or put a network between it and them.
//
//   server_process server(folder, settings);                               // both doors, on free ports
//   connect({door::grpc, server.address("grpc")})                  // "127.0.0.1:40123"
//   server.kill();                                                  // SIGKILL; terminate(): SIGTERM, and the exit code
//
// Threads: one at a time. Lifetime: the process is killed with the object, and when the test's own process ends.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace icecore::ways {

inline constexpr const char* job_token = "the token of this test";

inline constexpr const char* any_port = "127.0.0.1:0";

/// $ICECORE_SERVER_PROGRAM, or the one that was built with the test.
[[nodiscard]] std::string program();

struct server_settings {
  std::string program = ways::program();
  std::map<std::string, std::string> listen{{"grpc", any_port}, {"ucx", any_port}};  ///< the other doors are closed
  std::string free_disk_bytes = "0 B";
  std::vector<std::string> flags{};        ///< further ones
  std::function<void()> in_child = [] {};  ///< before it becomes the server: joins a network, for example
};

class server_process {
 public:
  /// `folder` keeps its data, its log and its token. Does not wait for it.
  server_process(const std::filesystem::path& folder, const server_settings& settings);
  ~server_process() { kill(); }
  server_process(const server_process&) = delete;
  server_process& operator=(const server_process&) = delete;

  void kill();
  /// Its exit code; -1 if a signal ended it.
  int terminate();
  /// Where a door listens, as the log says; empty if it does not after a minute.
  [[nodiscard]] std::string address(const std::string& door) const;
  [[nodiscard]] std::string log() const;
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

 private:
  std::filesystem::path log_;
  pid_t pid_ = 0;
};

/// Runs a program to its end; its exit code, or -1. Its output is not shown.
[[nodiscard]] int run_program(std::vector<std::string> words);

}  // namespace icecore::ways
