#include "service/executor.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

namespace icecore::service {

// ---- A task that repeats ----
//
// `calls` is held while the task runs, so whoever ends the repetition waits for a call that is under way, unless it is
// that call itself. After `over` is set no call begins.
struct executor::repeated {
  std::mutex calls;
  std::atomic<bool> over{false};          // relaxed: `calls` orders it
  std::atomic<std::thread::id> caller{};  // relaxed: a thread only asks whether it is itself
  std::chrono::milliseconds interval;
  task what;

  void end() {
    if (caller.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
      over = true;
      return;
    }
    const std::lock_guard waits(calls);
    over = true;
  }
};

executor::executor(unsigned threads) {
  const unsigned count = std::max(1U, threads);
  threads_.reserve(count);
  for (unsigned i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
  timer_ = std::thread([this] { keep_time(); });
}

executor::~executor() {
  {
    const std::lock_guard lock(timer_mutex_);
    timer_stopping_ = true;
  }
  timer_wakes_.notify_all();
  timer_.join();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  has_tasks_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void executor::post(task what) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(what));
  }
  has_tasks_.notify_one();
}

void executor::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    has_tasks_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const task next = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    next();
    lock.lock();
  }
}

executor::repetition executor::every(std::chrono::milliseconds interval, task what) {
  auto made = std::make_shared<repeated>();
  made->interval = interval;
  made->what = std::move(what);
  {
    const std::lock_guard lock(timer_mutex_);
    due_.emplace(std::chrono::steady_clock::now() + interval, made);
  }
  timer_wakes_.notify_all();
  // What the caller holds ends the repetition; the timer and the calls hold `made` itself.
  return repetition(std::shared_ptr<void>(made.get(), [made](void*) { made->end(); }));
}

void executor::keep_time() {
  std::unique_lock lock(timer_mutex_);
  while (!timer_stopping_) {
    if (due_.empty()) {
      timer_wakes_.wait(lock);
      continue;
    }
    const auto first = due_.begin();
    if (first->first > std::chrono::steady_clock::now()) {
      timer_wakes_.wait_until(lock, first->first);
      continue;
    }
    const std::shared_ptr<repeated> now = first->second;
    due_.erase(first);
    lock.unlock();
    post([this, now] {
      {
        const std::lock_guard call(now->calls);
        if (now->over) return;
        now->caller = std::this_thread::get_id();
        now->what();
        now->caller = std::thread::id();
        if (now->over) return;
      }
      const std::lock_guard again(timer_mutex_);
      due_.emplace(std::chrono::steady_clock::now() + now->interval, now);
      timer_wakes_.notify_all();
    });
    lock.lock();
  }
}

// ---- Strands ----
//
// `running` says that a task on the executor empties `tasks`. It is set by whoever puts the first task into an idle
// strand and cleared, under the same lock, by the one that finds no task left: so there is never more than one, and
// none is forgotten.
struct strand::state {
  explicit state(executor& threads) : pool(&threads) {}
  executor* pool;
  std::mutex mutex;
  std::condition_variable idle;
  std::deque<task> tasks;
  bool running = false;

  static void run(const std::shared_ptr<state>& self) {
    constexpr int turn = 64;  // then others that use the executor have theirs
    std::unique_lock lock(self->mutex);
    for (int i = 0; !self->tasks.empty(); ++i) {
      if (i == turn) {
        self->pool->post([self] { run(self); });
        return;
      }
      {
        const task next = std::move(self->tasks.front());
        self->tasks.pop_front();
        lock.unlock();
        next();
      }
      lock.lock();
    }
    self->running = false;
    self->idle.notify_all();
  }
};

strand::strand(executor& pool) : state_(std::make_shared<state>(pool)) {}

strand::~strand() { drain(); }

void strand::post(task what) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->tasks.push_back(std::move(what));
    if (std::exchange(state_->running, true)) return;
  }
  state_->pool->post([self = state_] { state::run(self); });
}

void strand::drain() {
  std::unique_lock lock(state_->mutex);
  state_->idle.wait(lock, [this] { return !state_->running; });
}

}  // namespace icecore::service
