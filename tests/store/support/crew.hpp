// Threads that do one thing at a time, in turn. Each has a writer of its own, so that a store of several files is
// written in all of them.
#pragma once

#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <vector>

namespace icecore::testing {

class crew {
 public:
  /// There are `count` threads, including the caller's.
  explicit crew(unsigned count);
  ~crew();
  crew(const crew&) = delete;
  crew& operator=(const crew&) = delete;

  /// Runs `work` on member `i` (0: the caller) and waits; throws what it throws.
  void run(unsigned i, const std::function<void()>& work);
  [[nodiscard]] unsigned size() const noexcept { return static_cast<unsigned>(members_.size()) + 1; }

 private:
  struct member;
  std::vector<std::unique_ptr<member>> members_;
};

}  // namespace icecore::testing
