// What makes requests of other ranks be answered: a thread of its own, and every wait.
//
//   progress p(messages, answer, background);
//   p.start_thread();                          // only with MPI_THREAD_MULTIPLE
//   p.wait([&] { return call.answered(); });   // answers others meanwhile
//
// Invariants:
//   P1 Whoever waits answers, so two ranks that wait for each other both go on.
//   P2 Answering never waits for another rank, so it can be done inside any wait.
//   P3 After a failure nothing waits any more: every wait throws it.
//   P4 Where MPI allows one thread only, a wait of one cluster also answers for the process's other clusters: else two
//      ranks that wait in different ones would wait for ever. For this they are in a list of the process.
// Threads: as messenger.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cluster/backoff.hpp"
#include "cluster/messenger.hpp"

namespace icecore::mpi {

class progress {
 public:
  /// `answer` answers one request; `background` sees to staged writes and returns whether it found something to do.
  /// `one_thread`: MPI allows no more.
  progress(messenger& messages, std::function<void(message&&)> answer, std::function<bool()> background,
           bool one_thread);
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  void start_thread();
  void stop_thread() noexcept;
  [[nodiscard]] bool has_thread() const noexcept { return thread_.joinable(); }

  /// Answers what has arrived. Returns whether there was anything.
  bool step();
  /// Answers for all clusters of a process whose MPI allows one thread only (P4).
  static bool step_all_of_one_thread();

  /// Called at the beginning of calls that may not wait: without a thread, steps if the last step was long ago.
  void step_now_and_then() {
    if (!has_thread()) step_if_due();
  }

  /// Steps until `done()`. Throws what broke the cluster, if anything did (P3).
  template <typename Done>
  void wait(Done&& done) {
    backoff pause;
    while (!done()) {
      throw_if_broken();
      const bool found = step();
      if (step_all_of_one_thread() || found) {
        pause.reset();
      } else {
        pause.pause();
      }
    }
  }

  /// From now on every wait fails with this message.
  void fail(const std::string& why) noexcept;
  // acquire: whoever sees it also sees why
  [[nodiscard]] bool broken() const noexcept { return broken_.load(std::memory_order_acquire); }
  void throw_if_broken() const {
    if (broken()) throw_broken();
  }

  [[nodiscard]] messenger& messages() noexcept { return messages_; }

 private:
  /// Those of the process, in the order of their making. Empty where MPI allows many threads.
  [[nodiscard]] static std::vector<progress*>& of_one_thread();

  void run() noexcept;
  void step_if_due();
  [[noreturn]] void throw_broken() const;

  messenger& messages_;
  std::function<void(message&&)> answer_;
  std::function<bool()> background_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::chrono::steady_clock::rep> last_step_{0};  // relaxed everywhere: one step too many does no harm

  mutable std::mutex failure_mutex_;
  std::string failure_;
  std::atomic<bool> broken_{false};
};

}  // namespace icecore::mpi
