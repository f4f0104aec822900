// Signals between ranks: a number that one rank sends and another waits for. They belong to no database.
//
// Threads: any number where MPI was started with MPI_THREAD_MULTIPLE, else one. finish() alone.
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
  /// `comm` is used by nothing else.
  signals(MPI_Comm comm, answer_others answer);

  // A rank that does not exist is errc::invalid_argument, thrown when the others of the list have been told or waited
  // for: they wait for this rank, and a program that looks at no result goes on in order.

  void notify(int signum, std::span<const int> ranks);
  /// Waits for one signal of that number from each of the ranks; of a rank named twice, for two.
  void wait(int signum, std::span<const int> ranks);
  /// Receives what nobody waited for, so that MPI has nothing left to deliver. Collective.
  void finish();

 private:
  struct sending {
    MPI_Request request;
    int signum;
  };

  [[nodiscard]] bool known(int rank) const noexcept { return rank >= 0 && rank < ranks_; }
  void refuse_unknown(std::span<const int> ranks) const;
  /// With the mutex held.
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
