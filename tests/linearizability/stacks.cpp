#include "stacks.hpp"

#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

namespace icecore::testing {
namespace {

constexpr int ask = SIGUSR1;

void tell(int) {
  const int interrupted = errno;
  print_stack();
  errno = interrupted;
}

}  // namespace

void print_stack() noexcept {
  std::array<char, 80> line{};
  const int length =
      std::snprintf(line.data(), line.size(), "process %d, thread %ld is here:\n", getpid(), syscall(SYS_gettid));
  static_cast<void>(write(STDERR_FILENO, line.data(), static_cast<std::size_t>(length)));
  std::array<void*, 64> frames{};
  backtrace_symbols_fd(frames.data(), backtrace(frames.data(), static_cast<int>(frames.size())), STDERR_FILENO);
}

void let_stacks_be_printed() {
  void* first = nullptr;
  backtrace(&first, 1);  // loads what it needs, which a signal handler could not
  struct sigaction how {};
  how.sa_handler = tell;
  how.sa_flags = SA_RESTART;
  sigaction(ask, &how, nullptr);
}

void print_stacks_of(pid_t process) {
  std::error_code gone;  // its end, meanwhile
  const std::filesystem::directory_iterator threads("/proc/" + std::to_string(process) + "/task", gone);
  for (const auto& thread : threads) {
    syscall(SYS_tgkill, process, std::stoi(thread.path().filename().string()), ask);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // one after the other can be read
  }
}

}  // namespace icecore::testing
