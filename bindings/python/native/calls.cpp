#include "calls.hpp"

#include <pthread.h>

#include <string>

#include "icecore/error.hpp"

namespace icecore::python {
namespace {

std::atomic<std::uint64_t> forks{0};

// relaxed: the child's only thread runs the handler before anything else
const int fork_handler_installed =
    pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });

// Calls that this thread is inside: closing the object there (in a progress callback) would make the thread wait for
// itself.
thread_local std::size_t calls_of_this_thread = 0;

}  // namespace

std::uint64_t fork_generation() noexcept {
  return forks.load(std::memory_order_relaxed);  // relaxed: see the handler
}

void running_calls::require_outside(const char* refused) {
  if (calls_of_this_thread > 0) throw error(errc::invalid_argument, refused);
}

void running_calls::wait_until_none() {
  awaited_ = true;
  PyThreadState* const thread = PyEval_SaveThread();
  // acquire: the effects of the finished calls happen before what the caller does next
  for (std::size_t running = running_.load(std::memory_order_acquire); running != 0;
       running = running_.load(std::memory_order_acquire)) {
    running_.wait(running, std::memory_order_acquire);
  }
  PyEval_RestoreThread(thread);
  awaited_ = false;
}

void running_calls::begin() noexcept {
  running_.fetch_add(1, std::memory_order_relaxed);  // relaxed: a waiting thread sees it through the GIL
  ++calls_of_this_thread;
}

void running_calls::end() noexcept {
  --calls_of_this_thread;
  // release: pairs with the acquire in wait_until_none()
  if (running_.fetch_sub(1, std::memory_order_release) == 1 && awaited_) running_.notify_all();
}

inside_call::inside_call() noexcept { ++calls_of_this_thread; }
inside_call::~inside_call() { --calls_of_this_thread; }

without_gil::without_gil(running_calls& calls) : calls_(calls) {
  calls_.begin();
  state_ = PyEval_SaveThread();
}

without_gil::~without_gil() {
  PyEval_RestoreThread(state_);
  calls_.end();
}

}  // namespace icecore::python
