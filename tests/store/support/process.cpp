#include "support/process.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <vector>

/// When coverage is measured, adds this process's counts to the profile, which _exit() would not do.
extern "C" int __llvm_profile_write_file() __attribute__((weak));

namespace icecore::testing {

child::child(const std::function<int()>& work) : pid_(fork()) {
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ != 0) return;
  int status = 70;
  try {
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
    : watcher_(
          [this, what = std::move(what), end = std::chrono::steady_clock::now() + limit, waiting = pthread_self()] {
            begun_.store(true, std::memory_order_release);
            while (!over_.load(std::memory_order_acquire)) {
              if (std::chrono::steady_clock::now() > end) {
                std::fprintf(stderr, "%s: did not end in time\n", what.c_str());
                pthread_kill(waiting, SIGABRT);  // so that the core shows the stack of the waiting thread
                return;
              }
              std::this_thread::sleep_for(std::chrono::milliseconds(2));
            }
          }) {
  // A thread that is just starting may hold locks, which a child forked meanwhile would never see released.
  while (!begun_.load(std::memory_order_acquire)) std::this_thread::yield();
}

deadline::~deadline() {
  over_.store(true, std::memory_order_release);
  watcher_.join();
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
