// One commit serves all threads that wait for one.
//
//   group_commit syncs;
//   syncs.run([&] { write_everything_back(); });     // returns when a run that began after the call has ended well
//
// Threads: run() from any thread. One thread runs at a time; the others sleep until it has ended, and then one of those
//   that came too late for that run begins the next.
// Errors: a run that throws serves nobody: its thread gets the exception, and another thread that waits runs again.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace icecore {

class group_commit {
 public:
  template <typename Commit>
  void run(const Commit& commit) {
    std::unique_lock lock(mutex_);
    // a run under way may have begun before what the caller did: only one that begins from now on counts
    const std::uint64_t wanted = begun_ + 1;
    while (completed_ < wanted) {
      if (running_) {
        ended_.wait(lock);
        continue;
      }
      running_ = true;
      const std::uint64_t mine = ++begun_;
      lock.unlock();
      try {
        commit();
      } catch (...) {
        lock.lock();
        end();
        throw;
      }
      lock.lock();
      completed_ = mine;
      end();
    }
  }

 private:
  /// Caller holds the mutex.
  void end() noexcept {
    running_ = false;
    ended_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  std::uint64_t begun_ = 0;
  std::uint64_t completed_ = 0;  // the last of them that ended well
  bool running_ = false;
};

}  // namespace icecore
