#include "cores.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>

namespace icecore::bench {
namespace {

std::atomic<bool> kept{false};  // set before threads are made

/// Processor time that anything but idling has taken of all cores since the machine started, in seconds; 0 if unknown.
/// What the host gave to other guests ("steal") counts as well: the cores were not there for the measured work.
double busy_seconds() noexcept {
  try {
    std::ifstream stat("/proc/stat");
    std::string cpu;
    std::array<double, 8> ticks{};  // user, nice, system, idle, iowait, irq, softirq, steal
    if (!(stat >> cpu) || cpu != "cpu") return 0;
    for (double& t : ticks) {
      if (!(stat >> t)) return 0;
    }
    constexpr std::size_t idle = 3, waiting = 4;
    double busy = 0;
    for (std::size_t i = 0; i < ticks.size(); ++i) busy += i == idle || i == waiting ? 0 : ticks[i];
    return busy / static_cast<double>(sysconf(_SC_CLK_TCK));
  } catch (const std::exception&) {
    return 0;
  }
}

std::int64_t now_ns() noexcept { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

void keep_threads_on_cores() noexcept { kept = true; }

bool threads_are_kept_on_cores() noexcept { return kept; }

void stay_on_core(unsigned thread, unsigned threads) noexcept {
  cpu_set_t allowed;
  if (!kept || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  if (threads > static_cast<unsigned>(CPU_COUNT(&allowed))) return;
  unsigned seen = 0;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || seen++ != thread) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    (void)pthread_setaffinity_np(pthread_self(), sizeof one, &one);  // if refused, the kernel places the thread
    return;
  }
}

other_load::other_load() noexcept : begin_ns_(now_ns()), busy_s_(busy_seconds()) {}

double other_load::cores(double own_s) const noexcept {
  const double seconds = static_cast<double>(now_ns() - begin_ns_) / 1e9;
  if (seconds <= 0 || busy_s_ == 0) return 0;
  return std::max(0.0, (busy_seconds() - busy_s_ - own_s) / seconds);
}

}  // namespace icecore::bench
