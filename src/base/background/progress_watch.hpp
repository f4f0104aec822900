// Lets one thread tell progress while others work, regularly, however long each step of theirs takes.
//
//   progress_watch watch(workers);
//   run_on_threads(workers + 1, [&](unsigned number) {
//     if (number == 0) return watch.until_end([&] { on_progress(done); });   // the calling thread
//     const progress_watch::end_of_one end(watch);
//     work();
//   });
//
// Threads: any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace icecore {

class progress_watch {
 public:
  explicit progress_watch(unsigned workers) noexcept : working_(workers) {}

  /// A worker has come to its end, with or without an error.
  class end_of_one {
   public:
    explicit end_of_one(progress_watch& of) noexcept : of_(&of) {}
    ~end_of_one() {
      const std::scoped_lock lock(of_->mutex_);
      if (--of_->working_ == 0) of_->ended_.notify_one();
    }
    end_of_one(const end_of_one&) = delete;
    end_of_one& operator=(const end_of_one&) = delete;

   private:
    progress_watch* of_;
  };

  /// Calls `tell` ten times a second, and once when nobody works any more.
  template <class Tell>
  void until_end(Tell&& tell) {
    for (bool is_last = false; !is_last;) {
      {
        std::unique_lock lock(mutex_);
        is_last = ended_.wait_for(lock, std::chrono::milliseconds(100), [&] { return working_ == 0; });
      }
      tell();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  unsigned working_;
};

}  // namespace icecore
