#include "kill_points.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>

#include "base/memory/sanitizer.hpp"
#include "pool/file/persist.hpp"
#include "store/core.hpp"

namespace icecore::testing {
namespace {

struct armed_point {
  kill_plan plan;
  std::atomic<std::int64_t> left{0};
  std::atomic<std::uint32_t>* struck = nullptr;
};
armed_point armed;

void die() {
  armed.struck->store(static_cast<std::uint32_t>(armed.plan.point));
  ::kill(getpid(), SIGKILL);
  for (;;) pause();
}

/// Whether this call of `point` is the one to die at.
[[nodiscard]] bool reached(kill_point point) {
  return armed.plan.point == point && armed.left.fetch_sub(1, std::memory_order_relaxed) == 1;  // relaxed: a count
}

/// Does `work`, dying before or behind it where the plan says so.
template <class Work>
auto passing(kill_point point, Work work) {
  const bool here = reached(point);
  if (here && !armed.plan.behind) die();
  const auto result = work();
  if (here) die();
  return result;
}

// The mode is emulated: what the lines' flush does cannot be told apart after a kill.
void counted_flush(const void*, std::size_t) {
  if (reached(kill_point::flush)) die();
}
void counted_fence() {
  if (reached(kill_point::fence)) die();
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace

std::string_view name_of(kill_point point) {
  static constexpr std::array<std::string_view, kill_points> names = {
      "none", "sync", "file_sync", "allocate", "truncate", "populate", "stat", "hostname", "flush", "fence"};
  return names.at(static_cast<std::size_t>(point));
}

void arm(const kill_plan& plan, std::atomic<std::uint32_t>& struck) {
  armed.plan = plan;
  armed.left = plan.count;
  armed.struck = &struck;
}

void replace_line_functions(store& s) {
  if (armed.plan.point != kill_point::flush && armed.plan.point != kill_point::fence) return;
  s.core().the_pool().persist().replace_line_functions(counted_flush, counted_fence);
}

}  // namespace icecore::testing

// ---- The system's functions, replaced for this whole program ----

using icecore::testing::kill_point;
using icecore::testing::passing;

extern "C" {

int fdatasync(int descriptor) {
  return passing(kill_point::sync, [&] { return static_cast<int>(syscall(SYS_fdatasync, descriptor)); });
}

int fsync(int descriptor) {
  return passing(kill_point::file_sync, [&] { return static_cast<int>(syscall(SYS_fsync, descriptor)); });
}

int posix_fallocate(int descriptor, off_t from, off_t size) {
  return passing(kill_point::allocate,
                 [&] { return syscall(SYS_fallocate, descriptor, 0, from, size) == 0 ? 0 : errno; });
}

int ftruncate(int descriptor, off_t size) noexcept {
  return passing(kill_point::truncate, [&] { return static_cast<int>(syscall(SYS_ftruncate, descriptor, size)); });
}

int gethostname(char* name, size_t size) noexcept {
  return passing(kill_point::hostname, [&] {
    utsname names{};
    if (uname(&names) != 0) return -1;
    const std::string_view host(names.nodename);
    if (host.size() >= size) return -1;
    name[host.copy(name, host.size())] = '\0';
    return 0;
  });
}

// The sanitizers look at these calls themselves.
#if !defined(ICECORE_UNDER_ADDRESS_SANITIZER) && !defined(ICECORE_UNDER_THREAD_SANITIZER)
int madvise(void* address, size_t size, int advice) noexcept {
  return passing(kill_point::populate, [&] { return static_cast<int>(syscall(SYS_madvise, address, size, advice)); });
}

int fstat(int descriptor, struct stat* out) noexcept {
  return passing(kill_point::stat, [&] { return static_cast<int>(syscall(SYS_fstat, descriptor, out)); });
}
#endif

}  // extern "C"
