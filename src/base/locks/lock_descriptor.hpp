// A file descriptor whose locks are this process's alone.
//
//   lock_descriptor locks([&] { return ::open(path, O_RDWR | O_CLOEXEC); });
//   fcntl(locks.get(), F_OFD_SETLK, &whole_file);
//
// Such a lock belongs to the open file description, which a forked child shares: it would keep the locks of a parent
// that is killed. So a child closes all of these before anything else. That is not enough where the description is
// mapped: the child inherits the mapping, and with it the description. So what is locked is opened once more, for locks
// only.
//
// Threads: all functions; of one object, by one at a time. A fork waits while one is opened.
#pragma once

#include <mutex>

namespace icecore {

class lock_descriptor {
 public:
  lock_descriptor() noexcept = default;
  /// `open` returns a new descriptor, or -1 and errno, which stays as it is. No fork comes between that and its entry
  /// here.
  template <typename Open>
  explicit lock_descriptor(Open open) {
    const std::scoped_lock no_fork(forks());
    descriptor_ = open();
    if (descriptor_ >= 0) enter();
  }
  ~lock_descriptor();
  lock_descriptor(const lock_descriptor&) = delete;
  lock_descriptor& operator=(const lock_descriptor&) = delete;

  /// -1: opening failed, or this is a forked child.
  [[nodiscard]] int get() const noexcept { return descriptor_; }

 private:
  friend struct lock_descriptor_list;

  /// Held while a descriptor is opened or closed, and while the process is forked.
  static std::mutex& forks() noexcept;
  void enter() noexcept;

  int descriptor_ = -1;
  lock_descriptor* next_ = nullptr;
  lock_descriptor* previous_ = nullptr;
};

}  // namespace icecore
