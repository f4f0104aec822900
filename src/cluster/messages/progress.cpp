#include "cluster/messages/progress.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "cluster/messages/quiet_thread.hpp"
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
  stopping_.store(true, std::memory_order_relaxed);  // relaxed: joining synchronises
  thread_.join();
}

void progress::run() noexcept {
  backoff pause;
  while (!stopping_.load(std::memory_order_relaxed)) {  // relaxed: joining synchronises
    try {
      if (step()) {
        pause.reset();
      } else {
        pause.pause();
      }
    } catch (...) {  // broken: continue, to send the pending notices
      pause.pause();
    }
  }
}

bool progress::step() {
  if (broken()) {
    messages_.resend_notices();
    return false;
  }
  bool found = false;
  try {
    messages_.finish_sends();
    if (const auto received = messages_.receive_notice()) {
      failed_elsewhere(received->rank, received->why);
      return true;
    }
    found = background_();
    while (auto request = messages_.receive_request()) {
      answer_(std::move(*request));
      found = true;
    }
  } catch (...) {  // from another rank's request or from MPI, not from the caller's own operation
    fail(std::current_exception());
    throw_broken();
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

bool progress::break_with(int rank, const ranks::failure& why) noexcept {
  const std::scoped_lock lock(failure_mutex_);
  if (broken()) return false;
  failed_rank_ = rank;
  failure_ = why;
  broken_.store(true, std::memory_order_release);  // release: publishes rank and cause
  return true;
}

void progress::fail(const std::exception_ptr& why) noexcept {
  const auto mine = ranks::failure::of(why);
  if (break_with(messages_.rank(), mine)) messages_.report_failure(mine);
}

void progress::failed_elsewhere(int rank, const ranks::failure& why) noexcept { break_with(rank, why); }

void progress::fail_everywhere(const ranks::failure& why) noexcept { break_with(all_ranks, why); }

std::optional<int> progress::failed_rank() const {
  const std::scoped_lock lock(failure_mutex_);
  return failed_rank_ == all_ranks ? std::nullopt : std::optional(failed_rank_);
}

void progress::end_telling() noexcept {
  constexpr std::chrono::seconds at_most{1};  // a rank that no longer receives messages cannot be notified
  const auto begun = std::chrono::steady_clock::now();
  backoff pause;
  while (!messages_.resend_notices() && std::chrono::steady_clock::now() - begun < at_most) pause.pause();
}

void progress::throw_broken() const {
  const std::scoped_lock lock(failure_mutex_);
  const std::string_view why = failure_.text();
  if (failed_rank_ == all_ranks) {
    throw error(static_cast<errc>(failure_.code()), fmt::format("the cluster can no longer be used: {}", why));
  }
  throw error(errc::rank_failed, fmt::format("the cluster can no longer be used: rank {} failed{}{}", failed_rank_,
                                             why.empty() ? "" : ": ", why));
}

}  // namespace icecore::mpi
