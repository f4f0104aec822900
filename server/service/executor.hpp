// The threads of the service: a pool that executes tasks, strands on it that execute theirs one at a time, and a timer.
//
//   executor pool(8);
//   strand applier(pool);  applier.post([] { ... });       // never two tasks of one strand at once, in their order
//   timer::entry again = pool.every(1s, [] { ... });       // until `again` ends
//
// Threads: any number may post. A task must not throw. The destructor of the executor waits until all tasks are done.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace icecore::service {

using task = std::function<void()>;

class executor {
 public:
  explicit executor(unsigned threads);
  ~executor();
  executor(const executor&) = delete;
  executor& operator=(const executor&) = delete;

  void post(task what);
  [[nodiscard]] unsigned threads() const noexcept { return static_cast<unsigned>(threads_.size()); }

  /// What every() returned: ends the repetition. Its destructor returns when no call of the task is running.
  class repetition {
   public:
    repetition() noexcept = default;
    explicit repetition(std::shared_ptr<void> held) noexcept : held_(std::move(held)) {}

   private:
    std::shared_ptr<void> held_;
  };
  /// Posts the task again and again, each time so long after it has ended, by a clock that never jumps.
  [[nodiscard]] repetition every(std::chrono::milliseconds interval, task what);

 private:
  struct repeated;
  void work();
  void keep_time();

  std::mutex mutex_;
  std::condition_variable has_tasks_;
  std::deque<task> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;

  std::mutex timer_mutex_;
  std::condition_variable timer_wakes_;
  std::multimap<std::chrono::steady_clock::time_point, std::shared_ptr<repeated>> due_;
  bool timer_stopping_ = false;
  std::thread timer_;
};

/// Tasks that run one at a time, in their order, on the threads of an executor.
class strand {
 public:
  explicit strand(executor& pool);
  /// Waits until its tasks are done.
  ~strand();
  strand(const strand&) = delete;
  strand& operator=(const strand&) = delete;

  void post(task what);
  /// Returns when all tasks that were posted before are done. Not from a task of this strand.
  void drain();

 private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace icecore::service
