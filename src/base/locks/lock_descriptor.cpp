#include "base/locks/lock_descriptor.hpp"

#include <pthread.h>
#include <unistd.h>

namespace icecore {

/// All there are, in the objects themselves: nothing is allocated, so a child can go through them.
struct lock_descriptor_list {
  constinit static inline std::mutex mutex;
  constinit static inline lock_descriptor* first = nullptr;

  /// In the child, whose only thread this is: it holds the mutex as its parent did.
  static void close_inherited() noexcept {
    for (lock_descriptor* one = first; one != nullptr; one = one->next_) {
      ::close(one->descriptor_);
      one->descriptor_ = -1;
    }
    first = nullptr;
    mutex.unlock();
  }
};

namespace {

const int closed_in_children =
    pthread_atfork([] { lock_descriptor_list::mutex.lock(); }, [] { lock_descriptor_list::mutex.unlock(); },
                   [] { lock_descriptor_list::close_inherited(); });

}  // namespace

std::mutex& lock_descriptor::forks() noexcept { return lock_descriptor_list::mutex; }

void lock_descriptor::enter() noexcept {
  next_ = lock_descriptor_list::first;
  if (next_ != nullptr) next_->previous_ = this;
  lock_descriptor_list::first = this;
}

lock_descriptor::~lock_descriptor() {
  if (descriptor_ < 0) return;
  const std::scoped_lock no_fork(forks());
  (previous_ != nullptr ? previous_->next_ : lock_descriptor_list::first) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
  ::close(descriptor_);
}

}  // namespace icecore
