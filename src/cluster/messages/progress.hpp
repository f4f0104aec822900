// How requests of other ranks get answered: by a thread for this purpose, and inside every wait.
//
//   progress p(messages, answer, background);
//   p.start_thread();                          // only with MPI_THREAD_MULTIPLE
//   p.wait([&] { return call.answered(); });   // answers others meanwhile
//
// Invariants:
//   P1 A thread that waits answers requests, so two ranks that wait for each other both make progress.
//   P2 Answering never waits for another rank, so any wait can do it.
//   P3 After a failure nothing waits any more, on any rank: the rank that fails notifies all others (messenger.hpp,
//      M5), their steps see the notice, and every wait throws it. An exception in a step is a failure, because another
//      rank waits for a request that could not be received or answered. A rank keeps the first failure it learns of. A
//      rank that fails after it got a notice from another rank sends no notice, because the first rank notifies all. If
//      two ranks fail at once, both send notices, and each rank keeps the one that arrives first.
//   P4 If MPI allows one thread only, a wait of one cluster also answers for the process's other clusters. Otherwise
//      two ranks that wait in different clusters would wait for ever. The process keeps a list of its clusters for
//      this.
// Threads: as messenger.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "cluster/messages/backoff.hpp"
#include "cluster/messages/messenger.hpp"

namespace icecore::mpi {

class progress {
 public:
  /// `answer` answers one request; `background` sends staged writes and returns whether it found something to do.
  /// `one_thread`: MPI allows only one thread.
  progress(messenger& messages, std::function<void(message&&)> answer, std::function<bool()> background,
           bool one_thread);
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  void start_thread();
  void stop_thread() noexcept;
  [[nodiscard]] bool has_thread() const noexcept { return thread_.joinable(); }

  /// Answers what has arrived. Returns whether there was anything. Throws errc::rank_failed if that broke the cluster.
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

  /// This rank failed: from now on every wait fails, on this and all other ranks.
  void fail(const std::exception_ptr& why) noexcept;
  /// Another rank failed.
  void failed_elsewhere(int rank, const ranks::failure& why) noexcept;
  /// From now on every wait fails with this error. The other ranks need no notice.
  void fail_everywhere(const ranks::failure& why) noexcept;
  /// Sends the pending notices of this rank's failure, for a limited time.
  void end_telling() noexcept;
  // acquire: a thread that sees it also sees the cause
  [[nodiscard]] bool broken() const noexcept { return broken_.load(std::memory_order_acquire); }
  /// The rank that failed; empty if none did, or if all ranks have the error itself (fail_everywhere).
  [[nodiscard]] std::optional<int> failed_rank() const;
  void throw_if_broken() const {
    if (broken()) throw_broken();
  }

  [[nodiscard]] messenger& messages() noexcept { return messages_; }

 private:
  /// The objects of the process, in the order of construction. Empty if MPI allows many threads.
  [[nodiscard]] static std::vector<progress*>& of_one_thread();

  void run() noexcept;
  void step_if_due();
  /// Returns whether it was not broken before. `rank`: the rank that failed, or all_ranks.
  bool break_with(int rank, const ranks::failure& why) noexcept;
  [[noreturn]] void throw_broken() const;

  messenger& messages_;
  std::function<void(message&&)> answer_;
  std::function<bool()> background_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::chrono::steady_clock::rep> last_step_{0};  // relaxed everywhere: an extra step is harmless

  mutable std::mutex failure_mutex_;
  static constexpr int all_ranks = -1;
  int failed_rank_ = all_ranks;
  ranks::failure failure_;
  std::atomic<bool> broken_{false};
};

}  // namespace icecore::mpi
