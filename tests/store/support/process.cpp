#include "support/process.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/memory/sanitizer.hpp"

/// When coverage is measured, adds this process's counts to the profile, which _exit() would not do.
extern "C" int __llvm_profile_write_file() __attribute__((weak));

namespace icecore::testing {

namespace {

std::vector<deadline*> deadlines;  // all that there are

/// The thread sanitizer knows a thread by its stack, and takes a thread of a child for one of the parent's if it has
/// that one's stack. The C library hands a stack of the parent's threads to the child's next thread, if it is large
/// enough: so it never is.
void leave_stacks_of_parent() {
#if defined(ICECORE_UNDER_THREAD_SANITIZER)
  constexpr std::size_t more = std::size_t{1} << 20;
  pthread_attr_t usual;
  std::size_t size = 0;
  const bool done = pthread_getattr_default_np(&usual) == 0 && pthread_attr_getstacksize(&usual, &size) == 0 &&
                    pthread_attr_setstacksize(&usual, size + more) == 0 && pthread_setattr_default_np(&usual) == 0;
  if (!done) throw std::runtime_error("threads of a child cannot be given larger stacks");
#endif
}

/// The address sanitizer's allocator keeps its locks as they are in a child: one that a thread of the parent held then
/// is held there for ever. So all threads of the parent sleep first, those that have just begun as well.
void await_sleeping_threads() {
#if defined(ICECORE_UNDER_ADDRESS_SANITIZER)
  using namespace std::chrono_literals;
  const auto own = std::to_string(syscall(SYS_gettid));
  const auto is_awake = [&](const std::filesystem::directory_entry& thread) {
    std::ifstream in(thread.path() / "stat");
    std::string number;
    std::string name;
    std::string state;
    in >> number >> name >> state;
    return number != own && state == "R";
  };
  const auto until = std::chrono::steady_clock::now() + 2s;
  for (int asleep = 0; asleep < 3 && std::chrono::steady_clock::now() < until; std::this_thread::sleep_for(1ms)) {
    const std::filesystem::directory_iterator threads("/proc/self/task");
    asleep = std::any_of(begin(threads), end(threads), is_awake) ? 0 : asleep + 1;
  }
#endif
}

}  // namespace

child::child(const std::function<int()>& work) {
  for (deadline* const each : deadlines) each->rest();
  await_sleeping_threads();
  pid_ = fork();
  if (pid_ == 0) {
    deadlines.clear();  // they are the parent's
  } else {
    for (deadline* const each : deadlines) each->watch();
  }
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ != 0) return;
  int status = 70;
  try {
    leave_stacks_of_parent();
    status = work();
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "child: %s\n", failure.what());
  }
  std::fflush(nullptr);
  if (__llvm_profile_write_file != nullptr) __llvm_profile_write_file();
  _exit(status);
}

child::~child() {
  if (ended_) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void child::kill(int signal) const { ::kill(pid_, signal); }

int child::wait(std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error("a child process hangs");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ended_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

deadline::deadline(std::string what, std::chrono::seconds limit)
    : what_(std::move(what)), end_(std::chrono::steady_clock::now() + limit), waiting_(pthread_self()) {
  deadlines.push_back(this);
  watch();
}

deadline::~deadline() {
  std::erase(deadlines, this);
  rest();
}

void deadline::watch() {
  over_.store(false, std::memory_order_relaxed);  // before the thread begins
  watcher_ = std::thread([this] {
    while (!over_.load(std::memory_order_acquire)) {
      if (std::chrono::steady_clock::now() > end_) {
        std::fprintf(stderr, "%s: did not end in time\n", what_.c_str());
        pthread_kill(waiting_, SIGABRT);  // so that the core shows the stack of the waiting thread
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
}

void deadline::rest() {
  over_.store(true, std::memory_order_release);
  if (watcher_.joinable()) watcher_.join();
}

void in_threads(unsigned count, const std::function<void(unsigned)>& body) {
  std::mutex together;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (unsigned i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(together);
        if (!first) first = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

std::int64_t ticks_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

}  // namespace icecore::testing
