#include "base/threads.hpp"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <vector>

namespace icecore {
namespace {

/// Gives out the lowest free number. It allocates nothing, because a thread's first write must not end the process
/// where memory ran out. It is never destroyed, because threads may end after static destructors ran.
class number_pool {
 public:
  unsigned take() noexcept {
    const std::scoped_lock lock(mutex_);
    for (unsigned word = 0; word < words; ++word) {
      if (taken_[word] == ~std::uint64_t{0}) continue;
      const auto bit = static_cast<unsigned>(std::countr_one(taken_[word]));
      taken_[word] |= std::uint64_t{1} << bit;
      return word * 64 + bit;
    }
    return next_++;  // more threads at once than there are bits: numbers from here on are not reused
  }
  void give_back(unsigned number) noexcept {
    const std::scoped_lock lock(mutex_);
    if (number < words * 64) taken_[number / 64] &= ~(std::uint64_t{1} << number % 64);
  }
  /// Around a fork: a child must not inherit the mutex locked by a thread that the child does not have.
  void before_fork() noexcept { mutex_.lock(); }
  void after_fork() noexcept { mutex_.unlock(); }

 private:
  static constexpr unsigned words = 256;

  std::mutex mutex_;
  std::array<std::uint64_t, words> taken_{};
  unsigned next_ = words * 64;
};

constinit number_pool numbers;

/// Gives a thread's number back when the thread ends. A thread_local object could do this too, but registering its
/// destructor allocates memory, and ends the process if there is none.
struct number_key {
  pthread_key_t key{};
  bool made = pthread_key_create(&key, [](void* number) {
                detail::own_thread_number = detail::no_number;  // if the thread needs a number again, it takes another
                numbers.give_back(static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(number) - 1));
              }) == 0;
};

// relaxed: the child's only thread runs the handler before anything else
const int numbers_survive_forks = pthread_atfork([] { numbers.before_fork(); }, [] { numbers.after_fork(); },
                                                 [] {
                                                   numbers.after_fork();
                                                   detail::forks.fetch_add(1, std::memory_order_relaxed);
                                                 });

}  // namespace

namespace detail {

std::atomic<std::uint64_t> forks{0};

unsigned take_thread_number() noexcept {
  static const number_key key;
  own_thread_number = numbers.take();
  void* const number = reinterpret_cast<void*>(std::uintptr_t{own_thread_number} + 1);  // NOLINT: no pointer, a number
  if (key.made) pthread_setspecific(key.key, number);
  return own_thread_number;
}

}  // namespace detail

namespace {

/// The cores on which the calling thread may run; none if the kernel does not say.
struct core_set {
  cpu_set_t cores;
  int count = 0;

  core_set() noexcept {
    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof cores, &cores) == 0) count = CPU_COUNT(&cores);
  }
};

const core_set at_load;

}  // namespace

unsigned core_count() noexcept {
  const core_set own;
  const int n = own.count == 1 ? at_load.count : own.count;
  return static_cast<unsigned>(n > 0 ? n : std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
}

void leave_core_of_maker() noexcept {
  if (at_load.count <= 1 || core_set().count != 1) return;
  (void)sched_setaffinity(0, sizeof at_load.cores, &at_load.cores);  // if it is refused, the core is shared
}

void prepare_all_threads_barrier() noexcept {
  syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
}

bool all_threads_barrier() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
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
        others.emplace_back([&guarded, i] {
          leave_core_of_maker();
          guarded(i);
        });
      } catch (const std::system_error&) {
        guarded(i);  // no more threads can be created: run it here
      } catch (const std::bad_alloc&) {
        guarded(i);
      }
    }
    guarded(0);
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace icecore
