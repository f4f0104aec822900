#include "base/memory/device_pages.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace icecore {

namespace {

std::uintptr_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

/// For the pages that have some of the bytes.
void advise(std::span<const std::byte> bytes, int what) noexcept {
  if (bytes.empty()) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t from = begin / page_bytes() * page_bytes();
  static_cast<void>(::madvise(reinterpret_cast<void*>(from), begin + bytes.size() - from, what));  // NOLINT: an address
}

/// How far walks of this thread have asked. Several go on at the same time where strata are merged: they are told apart
/// by where they are, mostly in different extents of 64 MiB.
struct asked {
  std::uintptr_t walk_at = 0;
  std::uintptr_t looked_at = 0;  // where the walk was when it was last seen whether the thread reads
  std::uintptr_t end = 0;
  std::uintptr_t window = 0;
};
constexpr unsigned place_bits = 26;
constinit thread_local std::array<asked, 8> asked_by_place{};
constexpr std::uintptr_t window_max = std::uintptr_t{4} << 20;

}  // namespace

constinit thread_local device_reads::of_thread device_reads::of_this_thread{};

void expect_random_reads(std::span<const std::byte> bytes) noexcept { advise(bytes, MADV_RANDOM); }

/// Linux reads at most the device's read-ahead for one request, 128 KiB as a rule, or its largest transfer if that is
/// more.
void ask_for(std::span<const std::byte> bytes) noexcept {
  constexpr std::size_t request_bytes = std::size_t{256} << 10;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), request_bytes));
    advise(part, MADV_WILLNEED);
    bytes = bytes.subspan(part.size());
  }
}

bool device_reads::renewed() noexcept {
  rusage used{};
  of_thread& mine = of_this_thread;
  if (::getrusage(RUSAGE_THREAD, &used) != 0) return mine.reads = false;
  // A kernel that does not count blocks counts faults. One more than that, so that the first call finds another number.
  const auto now = 1 + static_cast<std::uint64_t>(used.ru_inblock) + static_cast<std::uint64_t>(used.ru_majflt);
  mine.reads = now != mine.counted;
  mine.counted = now;
  return mine.reads;
}

void walk_comes_to(std::span<const std::byte> within, const std::byte* at) noexcept {
  const auto here = reinterpret_cast<std::uintptr_t>(at);
  const auto end = reinterpret_cast<std::uintptr_t>(within.data()) + within.size();
  asked& all = asked_by_place[(here >> place_bits) % asked_by_place.size()];
  // What another walk asked for may have been given back since.
  const bool goes_on = here >= all.walk_at && here - all.walk_at <= 2 * walk_step_bytes;
  all.walk_at = here;
  if (goes_on && here < all.end && (all.end >= end || all.end - here > all.window / 2)) return;
  // Of compressed records, many steps lie in few bytes.
  if (goes_on && here - all.looked_at < walk_step_bytes / 2) return;
  all.looked_at = here;
  if (!device_reads::renewed()) return;  // what was asked for last, or read since then, was in memory
  if (goes_on) {
    all.window = std::min(2 * all.window, window_max);
    all.end = std::max(all.end, here);
  } else {
    all.end = here;
    all.window = walk_step_bytes;
  }
  const std::uintptr_t to = std::min(end, here + all.window);
  if (to <= all.end) return;
  ask_for({reinterpret_cast<const std::byte*>(all.end), to - all.end});  // NOLINT: an address
  all.end = to;
}

}  // namespace icecore
