#include "index/arena.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <new>

namespace icecore::index {
namespace {

constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20;
constexpr std::uint64_t reach_bytes = (std::uint64_t{std::numeric_limits<arena_ref>::max()} + 1) * arena::unit_bytes;

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) noexcept {
  return (bytes + unit - 1) / unit * unit;
}

/// Where the address space is limited, one arena must not take all of it: a quarter.
std::uint64_t address_space_share() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return reach_bytes;
  return limit.rlim_cur / 4;
}

}  // namespace

arena::arena(const arena_options& options) {
  reserved_ = round_up(std::min(options.size_max_bytes, reach_bytes), commit_min_bytes);
  reserved_ =
      std::min(reserved_, std::max(address_space_share() / commit_min_bytes, std::uint64_t{1}) * commit_min_bytes);
  // PROT_NONE: addresses only, no memory is accounted even where overcommit is forbidden.
  for (;; reserved_ = round_up(reserved_ / 2, commit_min_bytes)) {
    mapping_bytes_ = reserved_ + huge_page_bytes;
    void* p = mmap(nullptr, mapping_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) {
      mapping_ = static_cast<std::byte*>(p);
      break;
    }
    if (reserved_ == commit_min_bytes) throw std::bad_alloc();
  }
  reserved_ = std::min(reserved_, options.size_max_bytes);
  const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
  base_ = mapping_ + (round_up(address, huge_page_bytes) - address);
  // Only a hint: where huge pages are switched off the index works as well, some tenths slower.
  if (options.huge_pages) (void)madvise(base_, mapping_bytes_ - huge_page_bytes, MADV_HUGEPAGE);
}

arena::~arena() { munmap(mapping_, mapping_bytes_); }

arena_ref arena::allocate(std::uint64_t bytes) {
  if (bytes > reserved_) throw std::bad_alloc();
  const std::uint64_t size = round_up(bytes, unit_bytes);
  // Relaxed: the winner of the exchange alone owns the bytes; whoever else gets to see them does so through a
  // reference that the tree publishes with release.
  std::uint64_t at = used_.load(std::memory_order_relaxed);
  for (;;) {
    if (at + size > reserved_) throw std::bad_alloc();
    // Acquire: pairs with commit(), whose mprotect must come before the first access.
    if (at + size > committed_.load(std::memory_order_acquire)) commit(at + size);
    if (used_.compare_exchange_weak(at, at + size, std::memory_order_relaxed)) {
      return static_cast<arena_ref>(at / unit_bytes);
    }
  }
}

void arena::commit(std::uint64_t end) {
  const std::lock_guard lock(growth_);
  // Relaxed: only ever written under growth_, which is held.
  const std::uint64_t old = committed_.load(std::memory_order_relaxed);
  if (end <= old) return;
  std::uint64_t step = std::clamp(old, commit_min_bytes, commit_max_bytes);
  step = std::max(step, round_up(end - old, commit_min_bytes));
  const std::uint64_t available = round_up(reserved_, commit_min_bytes) - old;
  step = std::min(step, available);
  if (mprotect(base_ + old, step, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  // Release: see allocate().
  committed_.store(old + step, std::memory_order_release);
}

}  // namespace icecore::index
