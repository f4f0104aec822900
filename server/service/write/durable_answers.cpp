#include "service/write/durable_answers.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

namespace icecore::service {

void durable_answers::add(answer what) {
  const icecore::version up_to = what.what.version;
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = waiting_.empty();
    waiting_.push_back(std::move(what));
    up_to_ = std::max(up_to_, up_to);
    count_.store(waiting_.size(), std::memory_order_relaxed);
  }
  if (first) begin();
}

void durable_answers::add(std::vector<answer> group, icecore::version up_to) {
  if (group.empty()) return;
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = waiting_.empty();
    std::ranges::move(group, std::back_inserter(waiting_));
    up_to_ = std::max(up_to_, up_to);
    count_.store(waiting_.size(), std::memory_order_relaxed);
  }
  if (first) begin();
}

// Whoever adds to an empty list posts the task that empties it, so no answer is forgotten, and at most two are posted.
void durable_answers::begin() {
  strand_.post([this] { serve(); });
}

void durable_answers::serve() {
  std::vector<answer> group;
  icecore::version up_to = 0;
  {
    const std::lock_guard lock(mutex_);
    group.swap(waiting_);
    up_to = up_to_;
    count_.store(0, std::memory_order_relaxed);
  }
  if (!poisoned_) {
    try {
      calls_.sync();
    } catch (...) {
      poisoned_ = failure_of(std::current_exception());
      poisoned_->code = errc::poisoned;
      calls_.failed(*poisoned_);
    }
  }
  if (!poisoned_) calls_.durable(up_to);
  for (answer& next : group) {
    if (poisoned_) {
      next.done(*poisoned_);
    } else {
      next.done(std::move(next.what));
    }
  }
}

}  // namespace icecore::service
