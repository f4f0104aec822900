#include "memory_latency.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <numeric>
#include <random>

#include "measure.hpp"

namespace icecore::bench {

double random_access_ns(std::size_t bytes, bool huge_pages) {
  constexpr std::size_t line = 64;
  constexpr std::size_t huge_page = std::size_t{2} << 20;
  constexpr std::size_t accesses = 2'000'000;
  const std::size_t mapped = bytes + huge_page;
  void* mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  madvise(mapping, mapped, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);
  auto* const memory = reinterpret_cast<std::byte*>((address + huge_page - 1) / huge_page * huge_page);
  const auto next_of = [&](std::size_t i) -> std::uint32_t& {
    return *reinterpret_cast<std::uint32_t*>(memory + i * line);
  };

  // one cycle through all lines in random order
  std::vector<std::uint32_t> order(bytes / line);
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(1));  // NOLINT: the same order in every run
  for (std::size_t i = 0; i < order.size(); ++i) next_of(order[i]) = order[(i + 1) % order.size()];

  const auto begin = std::chrono::steady_clock::now();
  std::uint32_t at = order.front();
  for (std::size_t i = 0; i < accesses; ++i) at = next_of(at);
  const double seconds = seconds_since(begin);
  next_of(0) = at;  // the walk has a use
  munmap(mapping, mapped);
  return seconds * 1e9 / static_cast<double>(accesses);
}

}  // namespace icecore::bench
