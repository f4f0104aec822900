#include "text/pager.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/file_error.hpp"
#include "text/output.hpp"

namespace icecore::cli {
namespace {

volatile std::sig_atomic_t pager_process = 0;

/// The pager keeps the terminal until its user leaves it, so this process must not end before.
extern "C" void wait_for_pager(int signal) {
  ::close(STDOUT_FILENO);
  while (::waitpid(static_cast<pid_t>(pager_process), nullptr, 0) < 0 && errno == EINTR) {
  }
  ::_exit(128 + signal);
}

bool is_on_path(std::string_view program) {
  const char* const path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/bin:/bin" : path;
  while (!rest.empty()) {
    const std::string folder(rest.substr(0, rest.find(':')));
    if (::access((folder + '/' + std::string(program)).c_str(), X_OK) == 0) return true;
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
  }
  return false;
}

/// The pager to run; empty for none.
std::string pager_command() {
  const char* const chosen = std::getenv("PAGER");
  if (chosen != nullptr) return std::string_view(chosen) == "cat" ? "" : chosen;
  return is_on_path("less") ? "less" : "";
}

}  // namespace

pager::pager(bool wanted) {
  if (!wanted || !stdout_is_terminal()) return;
  const std::string command = pager_command();
  if (command.empty()) return;
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) fail_on_file("standard output", "making a pipe to the pager");
  terminal_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  process_ = terminal_ < 0 ? -1 : ::fork();
  if (process_ < 0) fail_on_file("standard output", "starting the pager");
  if (process_ == 0) {
    (void)std::signal(SIGPIPE, SIG_DFL);  // this process ignores it, and a pager may rely on it
    ::dup2(pipe_ends[0], STDIN_FILENO);
    // As git: less leaves what fits on one screen, shows colours, and keeps the screen.
    ::setenv("LESS", "FRX", 0);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  ::dup2(pipe_ends[1], STDOUT_FILENO);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
  pager_process = process_;
  (void)std::signal(SIGINT, wait_for_pager);
  (void)std::signal(SIGTERM, wait_for_pager);
}

void pager::stop() noexcept {
  if (process_ < 0) return;
  ::dup2(terminal_, STDOUT_FILENO);
  ::close(terminal_);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  (void)std::signal(SIGINT, SIG_DFL);
  (void)std::signal(SIGTERM, SIG_DFL);
}

void pager::finish() {
  if (process_ < 0) return;
  out().flush();
  stop();
}

pager::~pager() {
  try {
    finish();
  } catch (...) {  // the reader has left, or the failure that ends this is told already
    stop();
  }
}

}  // namespace icecore::cli
