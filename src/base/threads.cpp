#include "base/threads.hpp"

#include <pthread.h>
#include <sched.h>

#include <exception>
#include <mutex>
#include <queue>
#include <vector>

namespace icecore {
namespace {

/// Hands out the lowest free number. Never destroyed: threads may end after static destructors ran.
class number_pool {
 public:
  unsigned take() {
    const std::scoped_lock lock(mutex_);
    if (free_.empty()) return next_++;
    const unsigned number = free_.top();
    free_.pop();
    return number;
  }
  void give_back(unsigned number) {
    const std::scoped_lock lock(mutex_);
    free_.push(number);
  }

 private:
  std::mutex mutex_;
  std::priority_queue<unsigned, std::vector<unsigned>, std::greater<>> free_;
  unsigned next_ = 0;
};

number_pool& numbers() {
  static auto* pool = new number_pool;
  return *pool;
}

struct thread_lease {
  unsigned number = numbers().take();
  ~thread_lease() { numbers().give_back(number); }
};

// relaxed: the child's only thread runs the handler before anything else
const int fork_handler_installed =
    pthread_atfork(nullptr, nullptr, [] { detail::forks.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

namespace detail {

std::atomic<std::uint64_t> forks{0};

unsigned take_thread_number() noexcept {
  thread_local const thread_lease lease;
  return own_thread_number = lease.number;
}

}  // namespace detail

unsigned core_count() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    const int n = CPU_COUNT(&set);
    if (n > 0) return static_cast<unsigned>(n);
  }
  const unsigned n = std::thread::hardware_concurrency();
  return n > 0 ? n : 1;
}

void run_on_threads(unsigned threads, const std::function<void(unsigned)>& body) {
  std::exception_ptr first;
  std::mutex first_mutex;
  const auto guarded = [&](unsigned i) {
    try {
      body(i);
    } catch (...) {
      const std::scoped_lock lock(first_mutex);
      if (!first) first = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (unsigned i = 1; i < threads; ++i) {
      try {
        others.emplace_back(guarded, i);
      } catch (const std::system_error&) {
        guarded(i);  // the machine gives no more threads: do it here
      }
    }
    guarded(0);
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace icecore
