// wire_peer.cpp as a process of its own: killed with this object.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>

#include "wire_support.hpp"

extern char** environ;

namespace icecore::wire::testing {

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
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
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

}  // namespace icecore::wire::testing
