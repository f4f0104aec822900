// Runs a part of a benchmark in a process of its own, which is then killed. So no store inherits another store's
// memory, a store that crashes or hangs loses only its own results, and recovery really follows a kill.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <type_traits>

namespace icecore::bench {

/// An array that a child process shares with its parent; initially zeros.
template <class T>
  requires std::is_trivially_copyable_v<T>
class shared_array {
 public:
  explicit shared_array(std::size_t count) : count_(count) {
    void* const mapping =
        mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(mapping);
  }
  ~shared_array() { munmap(data_, bytes()); }
  shared_array(const shared_array&) = delete;
  shared_array& operator=(const shared_array&) = delete;

  [[nodiscard]] std::span<T> all() const noexcept { return {data_, count_}; }
  [[nodiscard]] T& operator[](std::size_t i) const noexcept { return data_[i]; }

 private:
  [[nodiscard]] std::size_t bytes() const noexcept { return (count_ == 0 ? 1 : count_) * sizeof(T); }
  std::size_t count_;
  T* data_;
};

/// Runs `work` in a child process, kills the child with SIGKILL as soon as `work` returns, and waits. Throws
/// std::runtime_error with the child's exception, the signal that ended it, or the message that it took more than
/// `limit_s` seconds. Returns the processor time that the child took, in seconds.
/// Precondition: this process has one thread.
double run_and_kill(unsigned limit_s, const std::function<void()>& work);

}  // namespace icecore::bench
