#include "base/locks/lock_descriptor.hpp"

#include <pthread.h>
#include <unistd.h>

namespace icecore {

/// The list of all lock descriptors, linked through the objects: nothing is allocated, so a forked child can walk it.
struct lock_descriptor_list {
  constinit static inline std::mutex mutex;
  constinit static inline lock_descriptor* first = nullptr;

  /// Runs in the child. Its only thread holds the mutex, as the forking thread in the parent did.
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
