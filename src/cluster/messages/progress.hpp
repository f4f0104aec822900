// What makes requests of other ranks be answered: a thread of its own, and every wait.
//
//   progress p(messages, answer, background);
//   p.start_thread();                          // only with MPI_THREAD_MULTIPLE
//   p.wait([&] { return call.answered(); });   // answers others meanwhile
//
// Invariants:
//   P1 Whoever waits answers, so two ranks that wait for each other both go on.
//   P2 Answering never waits for another rank, so it can be done inside any wait.
//   P3 After a failure nothing waits any more, on any rank: the rank that fails tells all others (messenger.hpp, M5),
//      whose steps see it, and every wait throws it. What fails in a step is a failure: a request that could not be
//      received or answered is one that somebody waits for. The first failure that a rank learns of stays. One that
//      fails after it was told of another's tells nobody: whoever told it tells all. Two that fail at once both tell,
//      and each rank keeps what comes first.
//   P4 Where MPI allows one thread only, a wait of one cluster also answers for the process's other clusters: else two
//      ranks that wait in different ones would wait for ever. For this they are in a list of the process.
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

  /// This rank failed: from now on every wait fails, here and on all other ranks.
  void fail(const std::exception_ptr& why) noexcept;
  /// Another rank failed.
  void told_of(int rank, const ranks::failure& why) noexcept;
  /// From now on every wait fails with this error. The other ranks need not be told.
  void fail_everywhere(const ranks::failure& why) noexcept;
  /// Sends what the others are to be told of this rank's failure, for a while at most.
  void end_telling() noexcept;
  // acquire: whoever sees it also sees why
  [[nodiscard]] bool broken() const noexcept { return broken_.load(std::memory_order_acquire); }
  /// Which rank failed; empty if none did, or all know better.
  [[nodiscard]] std::optional<int> failed_rank() const;
  void throw_if_broken() const {
    if (broken()) throw_broken();
  }

  [[nodiscard]] messenger& messages() noexcept { return messages_; }

 private:
  /// Those of the process, in the order of their making. Empty where MPI allows many threads.
  [[nodiscard]] static std::vector<progress*>& of_one_thread();

  void run() noexcept;
  void step_if_due();
  /// Whether it was not broken before. `rank`: of whom, or all_ranks.
  bool break_with(int rank, const ranks::failure& why) noexcept;
  [[noreturn]] void throw_broken() const;

  messenger& messages_;
  std::function<void(message&&)> answer_;
  std::function<bool()> background_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::chrono::steady_clock::rep> last_step_{0};  // relaxed everywhere: one step too many does no harm

  mutable std::mutex failure_mutex_;
  static constexpr int all_ranks = -1;
  int failed_rank_ = all_ranks;
  ranks::failure failure_;
  std::atomic<bool> broken_{false};
};

}  // namespace icecore::mpi
