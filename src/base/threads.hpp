// Small helpers for threads: dense thread numbers, running a function on several threads, a barrier that all threads
// pass, waiting with backoff.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace icecore {

namespace detail {
inline constexpr unsigned no_number = ~0U;
/// Initialised at compile time, so that reading it takes no call.
inline thread_local constinit unsigned own_thread_number = no_number;
unsigned take_thread_number() noexcept;
extern std::atomic<std::uint64_t> forks;
}  // namespace detail

/// A small number that no other living thread has. Numbers of finished threads are given out again, lowest first.
[[nodiscard]] inline unsigned thread_number() noexcept {
  const unsigned own = detail::own_thread_number;
  return own != detail::no_number ? own : detail::take_thread_number();
}

// A program may bind its threads to cores, one to each. A thread that this library makes would inherit that from the
// program's thread, and both would share the core. So it leaves it, for the cores that the process had when the library
// was loaded; it stays if the program's thread may use several cores, since then these are a limit.

/// The number of cores on which threads that this one makes may run, at least 1.
[[nodiscard]] unsigned core_count() noexcept;
/// For a thread that the library has made, before it does anything else. One system call, or two.
void leave_core_of_maker() noexcept;

/// `asked`, or all cores if it is 0.
[[nodiscard]] inline unsigned thread_count(unsigned asked) noexcept { return asked == 0 ? core_count() : asked; }

/// Runs body(0) ... body(threads - 1), each on its own thread (the caller's is one of them, and the only one if no
/// other can be created), and waits for all. After all have ended, throws the first exception that one of them threw.
void run_on_threads(unsigned threads, const std::function<void(unsigned)>& body);

/// How many forks lie between this process and the one that loaded the library: 0 in the original, more in children.
[[nodiscard]] inline std::uint64_t fork_generation() noexcept {
  return detail::forks.load(std::memory_order_relaxed);  // relaxed: the child's only thread counts before anything else
}

/// Call once before all_threads_barrier() matters; more calls do nothing.
void prepare_all_threads_barrier() noexcept;
/// Each running thread of the process passes a full memory barrier before this returns. The caller pays for it with a
/// system call (membarrier(2)), the others need no fence. Returns whether the kernel offers it; if not, only the
/// calling thread has passed one.
bool all_threads_barrier() noexcept;

/// Tells the core that this is a spin loop.
inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // "yield" does nothing on most of these processors
#endif
}

/// Waits for another thread to finish something short: spins for a while, then yields the core.
class backoff {
 public:
  void pause() noexcept {
    if (++rounds_ < spins_before_yield) {
      cpu_relax();
    } else {
      std::this_thread::yield();
    }
  }

 private:
  static constexpr unsigned spins_before_yield = 64;
  unsigned rounds_ = 0;
};

}  // namespace icecore
