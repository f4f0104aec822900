#include "base/background/background.hpp"

#include <utility>

#include "base/background/library_thread.hpp"

namespace icecore {

background::background(std::function<void()> work)
    : work_(std::move(work)), fork_generation_(fork_generation()), thread_(library_thread([this] { run(); })) {}

// stop() says that it stops before it asks, and the thread takes the question before it looks whether to stop. So it
// sees it after the last question at the latest. A question during the work is answered by another round.
void background::run() noexcept {
  for (;;) {
    state_.wait(idle, std::memory_order_acquire);
    state_.exchange(idle, std::memory_order_acq_rel);
    if (stopping_.load(std::memory_order_acquire)) return;
    work_();
  }
}

void background::stop() noexcept {
  if (!thread_.joinable()) return;
  if (fork_generation_ != fork_generation()) {  // the child has no such thread
    thread_.detach();
    return;
  }
  stopping_.store(true, std::memory_order_release);
  state_.exchange(asked, std::memory_order_acq_rel);
  state_.notify_one();
  thread_.join();
}

}  // namespace icecore
