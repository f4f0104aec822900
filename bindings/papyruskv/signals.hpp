// Signals between ranks: numbers that one rank sends and another waits for. They belong to no database.
//
// Threads: any number if MPI was started with MPI_THREAD_MULTIPLE, otherwise one; finish() while no other call runs.
// Cost: a message of four bytes each.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "waiting.hpp"

namespace papyruskv {

class signals {
 public:
  /// `comm` must be used only here.
  signals(MPI_Comm comm, answer_others answer);

  // A rank that does not exist is errc::invalid_argument, thrown after the others of the list were signalled or waited
  // for: they wait for this rank, and so a program that ignores results still continues in order.

  void notify(int signum, std::span<const int> ranks);
  /// Waits for one signal of that number from each of the ranks; for two from a rank that is named twice.
  void wait(int signum, std::span<const int> ranks);
  /// Receives the signals that no call waited for, so that MPI has nothing left to deliver. Collective.
  void finish();

 private:
  struct sending {
    MPI_Request request;
    int signum;
  };

  [[nodiscard]] bool known(int rank) const noexcept { return rank >= 0 && rank < ranks_; }
  void refuse_unknown(std::span<const int> ranks) const;
  /// The caller holds the mutex.
  void send(int signum, int to);
  void receive();
  [[nodiscard]] bool take(int from, int signum);

  MPI_Comm comm_;
  answer_others answer_;
  int ranks_ = 0;
  std::mutex mutex_;
  std::list<sending> sending_;
  std::map<std::pair<int, int>, std::uint64_t> here_;  // by rank and number
  std::vector<std::uint64_t> sent_;                    // by rank
  std::uint64_t received_ = 0;
};

}  // namespace papyruskv
