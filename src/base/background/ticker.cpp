#include "base/background/ticker.hpp"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/background/library_thread.hpp"

namespace icecore {

/// Never deleted: a forked child could neither lock nor destroy what the thread was using.
struct ticking_task::ticker {
  const std::uint64_t fork_generation = icecore::fork_generation();
  std::mutex mutex;  // held while work runs
  std::condition_variable changed;
  std::vector<const ticking_task*> tasks;
  std::thread thread;  // works while `begun` is what it was when the thread was made
  std::uint64_t begun = 0;

  void run(std::uint64_t mine) {
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, interval, [&] { return begun != mine; })) {
      for (const ticking_task* const task : tasks) task->work_();
    }
  }

  /// Under the mutex.
  void begin() noexcept {
    try {
      thread = library_thread([this, mine = ++begun] { run(mine); });
    } catch (const std::exception&) {  // nothing is done, as said
    }
  }
  /// Under the mutex. The caller joins the thread without it.
  [[nodiscard]] std::thread end() noexcept {
    ++begun;
    changed.notify_all();
    return std::move(thread);
  }
};

ticking_task::ticker& ticking_task::ticker_of_this_process() {
  static std::atomic<ticker*> current{nullptr};
  ticker* found = current.load(std::memory_order_acquire);  // acquire: pairs with the exchange
  while (found == nullptr || found->fork_generation != fork_generation()) {
    auto* const made = new ticker;
    // a forked child leaves its parent's behind
    if (current.compare_exchange_strong(found, made, std::memory_order_acq_rel, std::memory_order_acquire))
      return *made;
    delete made;
  }
  return *found;
}

ticking_task::ticking_task(std::function<void()> work) : work_(std::move(work)), in_(&ticker_of_this_process()) {
  const std::scoped_lock lock(in_->mutex);
  in_->tasks.push_back(this);
  if (in_->tasks.size() == 1) in_->begin();
  has_thread_ = in_->thread.joinable();
}

ticking_task::~ticking_task() {
  if (in_->fork_generation != fork_generation()) return;
  std::thread ended;
  {
    const std::scoped_lock lock(in_->mutex);
    std::erase(in_->tasks, this);
    if (in_->tasks.empty()) ended = in_->end();
  }
  if (ended.joinable()) ended.join();
}

}  // namespace icecore
