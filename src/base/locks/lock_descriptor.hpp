// A file descriptor whose locks belong to this process alone.
//
//   lock_descriptor locks([&] { return ::open(path, O_RDWR | O_CLOEXEC); });
//   fcntl(locks.get(), F_OFD_SETLK, &whole_file);
//
// Such a lock belongs to the open file description, which a forked child shares. If the parent were killed, the child
// would keep its locks. So a child closes all of these descriptors first. That is not enough if the file description is
// mapped: the child inherits the mapping, and with it the description. So the file is opened a second time, only for
// locks.
//
// Threads: all functions; one thread at a time per object. A fork waits while a descriptor is opened.
#pragma once

#include <mutex>

namespace icecore {

class lock_descriptor {
 public:
  lock_descriptor() noexcept = default;
  /// `open` returns a new descriptor, or -1 and errno, which is kept. No fork comes between this and the descriptor's
  /// entry in the list.
  template <typename Open>
  explicit lock_descriptor(Open open) {
    const std::scoped_lock no_fork(forks());
    descriptor_ = open();
    if (descriptor_ >= 0) enter();
  }
  ~lock_descriptor();
  lock_descriptor(const lock_descriptor&) = delete;
  lock_descriptor& operator=(const lock_descriptor&) = delete;

  /// -1 if opening failed or this is a forked child.
  [[nodiscard]] int get() const noexcept { return descriptor_; }

 private:
  friend struct lock_descriptor_list;

  /// Held while a descriptor is opened or closed and while the process forks.
  static std::mutex& forks() noexcept;
  void enter() noexcept;

  int descriptor_ = -1;
  lock_descriptor* next_ = nullptr;
  lock_descriptor* previous_ = nullptr;
};

}  // namespace icecore
