#include "cluster/progress.hpp"

#include <utility>

#include "cluster/quiet_thread.hpp"
#include "icecore/error.hpp"

namespace icecore::mpi {

progress::progress(messenger& messages, std::function<void(message&&)> answer, std::function<bool()> background,
                   bool one_thread)
    : messages_(messages), answer_(std::move(answer)), background_(std::move(background)) {
  if (one_thread) of_one_thread().push_back(this);
}

progress::~progress() {
  stop_thread();
  std::erase(of_one_thread(), this);
}

std::vector<progress*>& progress::of_one_thread() {
  static std::vector<progress*> all;
  return all;
}

bool progress::step_all_of_one_thread() {
  bool found = false;
  for (progress* each : of_one_thread()) found |= each->step();
  return found;
}

void progress::start_thread() {
  thread_ = start_quiet_thread([this] { run(); });
}

void progress::stop_thread() noexcept {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_relaxed);  // joining synchronises
  thread_.join();
}

void progress::run() noexcept {
  backoff pause;
  while (!stopping_.load(std::memory_order_relaxed)) {  // only to end; joining synchronises
    try {
      if (step()) {
        pause.reset();
      } else {
        pause.pause();
      }
    } catch (const std::exception& e) {
      fail(e.what());
      return;
    }
  }
}

bool progress::step() {
  messages_.finish_sends();
  bool found = background_();
  while (auto request = messages_.receive_request()) {
    answer_(std::move(*request));
    found = true;
  }
  return found;
}

void progress::step_if_due() {
  constexpr std::chrono::microseconds interval{10};
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const std::chrono::steady_clock::duration last{last_step_.load(std::memory_order_relaxed)};
  if (now - last < interval) return;
  last_step_.store(now.count(), std::memory_order_relaxed);
  step();
}

void progress::fail(const std::string& why) noexcept {
  const std::scoped_lock lock(failure_mutex_);
  if (broken()) return;
  failure_ = why;
  broken_.store(true, std::memory_order_release);  // release: why is written before
}

void progress::throw_broken() const {
  const std::scoped_lock lock(failure_mutex_);
  throw error(errc::mpi, "the cluster cannot be used any more: " + failure_);
}

}  // namespace icecore::mpi
