// Signals that other ranks have sent to this rank, counted until a thread waits for them.
//
// Threads: any number.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace icecore::mpi {

class signal_board {
 public:
  void notified(int from, int signum) {
    const std::scoped_lock lock(mutex_);
    ++counts_[{from, signum}];
  }

  /// Takes one signal of that number from that rank, if there is one.
  [[nodiscard]] bool take(int from, int signum) {
    const std::scoped_lock lock(mutex_);
    const auto it = counts_.find({from, signum});
    if (it == counts_.end()) return false;
    if (--it->second == 0) counts_.erase(it);
    return true;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::uint64_t> counts_;
};

}  // namespace icecore::mpi
