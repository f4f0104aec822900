#include "isolated.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <system_error>

namespace icecore::bench {
namespace {

struct outcome {
  bool returned;
  std::array<char, 1024> error;  // the exception's message, truncated to fit
};

double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; }

void record(outcome& result, const char* what) {
  const std::size_t length = std::min(std::strlen(what), result.error.size() - 1);
  std::memcpy(result.error.data(), what, length);
}

[[noreturn]] void work_and_die(unsigned limit_s, const std::function<void()>& work, outcome& result) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGALRM}) std::signal(signal, SIG_DFL);
  alarm(limit_s);
  try {
    work();
    result.returned = true;
  } catch (const std::exception& failure) {
    record(result, failure.what());
  } catch (...) {
    record(result, "an exception was thrown that is not a std::exception");
  }
  kill(getpid(), SIGKILL);
  _exit(1);
}

}  // namespace

double run_and_kill(unsigned limit_s, const std::function<void()>& work) {
  const shared_array<outcome> result(1);
  const pid_t child = fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "cannot make a process");
  if (child == 0) work_and_die(limit_s, work, result[0]);
  int status = 0;
  rusage used{};
  while (wait4(child, &status, 0, &used) < 0) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "cannot wait for a process");
    kill(child, SIGKILL);  // this process received a signal that ends it
  }
  if (result[0].returned) return seconds(used.ru_utime) + seconds(used.ru_stime);
  if (result[0].error[0] != '\0') throw std::runtime_error(result[0].error.data());
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (signal == SIGALRM) throw std::runtime_error(fmt::format("took more than {} s and was stopped", limit_s));
  throw std::runtime_error(fmt::format("ended by signal {} ({})", signal, strsignal(signal)));
}

}  // namespace icecore::bench
