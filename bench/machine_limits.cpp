#include "machine_limits.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <numeric>
#include <random>
#include <span>
#include <system_error>

#include "measure.hpp"

namespace icecore::bench {
namespace {

constexpr std::size_t line = 64;
constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t latency_bytes = std::size_t{256} << 20;  // far beyond the caches
constexpr std::uint64_t additions_timed = 2'000'000;
constexpr std::size_t bandwidth_bytes = std::size_t{256} << 20;
constexpr std::size_t independent_accesses = 8'000'000;
static_assert(std::has_single_bit(latency_bytes / line) && std::has_single_bit(bandwidth_bytes / line));

/// Private memory at an address that is a multiple of 2 MiB, all pages present.
class aligned_memory {
 public:
  aligned_memory(std::size_t bytes, bool huge_pages) : mapped_(bytes + huge_page) {
    mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping_ == MAP_FAILED) throw std::bad_alloc();
    madvise(mapping_, mapped_, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
    data_ = reinterpret_cast<std::byte*>((address + huge_page - 1) / huge_page * huge_page);
    std::memset(data_, 1, bytes);
  }
  ~aligned_memory() { munmap(mapping_, mapped_); }
  aligned_memory(const aligned_memory&) = delete;
  aligned_memory& operator=(const aligned_memory&) = delete;
  [[nodiscard]] std::byte* data() const noexcept { return data_; }

 private:
  std::size_t mapped_;
  void* mapping_;
  std::byte* data_;
};

/// A new file without a name.
class scratch_descriptor {
 public:
  scratch_descriptor(const std::filesystem::path& folder, std::size_t bytes)
      : descriptor_(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)) {
    if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "cannot write in " + folder.string());
    if (const int failed = posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes)); failed != 0) {
      close(descriptor_);
      throw std::system_error(failed, std::generic_category(), "no space in " + folder.string());
    }
  }
  ~scratch_descriptor() { close(descriptor_); }
  scratch_descriptor(const scratch_descriptor&) = delete;
  scratch_descriptor& operator=(const scratch_descriptor&) = delete;
  [[nodiscard]] int get() const noexcept { return descriptor_; }

 private:
  int descriptor_;
};

#if defined(__x86_64__)
enum class line_flush { clwb, clflushopt, clflush };

line_flush best_line_flush() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
    if ((b & bit_CLWB) != 0) return line_flush::clwb;
    if ((b & bit_CLFLUSHOPT) != 0) return line_flush::clflushopt;
  }
  return line_flush::clflush;
}

/// Lines per second that are written, flushed and fenced, one after another.
double flushes_per_second(std::byte* memory, std::size_t bytes) {
  const line_flush how = best_line_flush();
  const auto begin = std::chrono::steady_clock::now();
  for (std::byte* at = memory; at < memory + bytes; at += line) {
    std::memset(at, 2, line);
    if (how == line_flush::clwb) asm volatile("clwb %0" : "+m"(*at));
    if (how == line_flush::clflushopt) asm volatile("clflushopt %0" : "+m"(*at));
    if (how == line_flush::clflush) _mm_clflush(at);
    _mm_sfence();
  }
  return static_cast<double>(bytes / line) / seconds_since(begin);
}

#endif

double reads_per_second(const std::byte* memory, std::size_t bytes, unsigned threads) {
  const std::span numbers(reinterpret_cast<const std::uint64_t*>(memory), bytes / sizeof(std::uint64_t));
  std::atomic<std::uint64_t> use{0};
  const double seconds = timed_in_threads(threads, [&](unsigned thread) {
    const auto mine = numbers.subspan(numbers.size() / threads * thread, numbers.size() / threads);
    use += std::accumulate(mine.begin(), mine.end(), std::uint64_t{0});
  });
  return static_cast<double>(bytes) / seconds;
}

/// Lines per second that are read at random. No address depends on what was read, so a core has as many accesses under
/// way as it can.
double random_lines_per_second(const std::byte* memory, std::size_t bytes, unsigned threads) {
  const std::size_t lines = bytes / line;
  const std::size_t each = independent_accesses / threads;
  std::atomic<std::uint64_t> use{0};
  const double seconds = timed_in_threads(threads, [&](unsigned thread) {
    std::uint64_t sum = 0;
    for (std::size_t i = each * thread, end = i + each; i < end; ++i) {
      const std::size_t any = random_key(i) & (lines - 1);
      sum += *reinterpret_cast<const std::uint64_t*>(memory + any * line);
    }
    use += sum;
  });
  return static_cast<double>(each * threads) / seconds;
}

double writes_per_second(std::byte* memory, std::size_t bytes, unsigned threads) {
  const double seconds = timed_in_threads(threads, [&](unsigned thread) {
    std::memset(memory + bytes / threads * thread, static_cast<int>(thread), bytes / threads);
  });
  return static_cast<double>(bytes) / seconds;
}

double additions_per_second(unsigned threads) {
  alignas(line) std::atomic<std::uint64_t> counter{0};
  const double seconds = timed_in_threads(threads, [&](unsigned) {
    for (std::uint64_t i = 0; i < additions_timed / threads; ++i) counter.fetch_add(1);
  });
  return static_cast<double>(additions_timed) / seconds;
}

/// The clock that latencies are measured with.
double clock_readings_per_second() {
  constexpr std::uint64_t readings = 1'000'000;
  const auto begin = std::chrono::steady_clock::now();
  auto end = begin;
  for (std::uint64_t i = 0; i < readings; ++i) end = std::chrono::steady_clock::now();
  return static_cast<double>(readings) / std::chrono::duration<double>(end - begin).count();
}

/// Writes and syncs a page again and again.
double syncs_per_second(const std::filesystem::path& folder) {
  constexpr std::size_t page = 4096;
  constexpr double seconds_max = 0.3;
  const scratch_descriptor file(folder, page);
  std::array<char, page> bytes{};
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t syncs = 0;
  while (seconds_since(begin) < seconds_max) {
    bytes.fill(static_cast<char>(++syncs));
    if (pwrite(file.get(), bytes.data(), page, 0) != static_cast<ssize_t>(page) || fdatasync(file.get()) != 0) {
      throw std::system_error(errno, std::generic_category(), "cannot sync in " + folder.string());
    }
  }
  return static_cast<double>(syncs) / seconds_since(begin);
}

}  // namespace

double random_access_ns(std::size_t bytes, bool huge_pages) {
  constexpr std::size_t accesses = 2'000'000;
  const aligned_memory memory(bytes, huge_pages);
  const auto next_of = [&](std::size_t i) -> std::uint32_t& {
    return *reinterpret_cast<std::uint32_t*>(memory.data() + i * line);
  };

  // one cycle through all lines in random order
  std::vector<std::uint32_t> order(bytes / line);
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(1));  // NOLINT: the same order in every run
  for (std::size_t i = 0; i < order.size(); ++i) next_of(order[i]) = order[(i + 1) % order.size()];

  std::uint32_t at = order[0];
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t done = 0; done < accesses; ++done) at = next_of(at);
  const double seconds = seconds_since(begin);
  next_of(0) = at;  // uses the result, so the compiler keeps the walk
  return seconds * 1e9 / static_cast<double>(accesses);
}

std::vector<machine_limit> measure_machine_limits(const std::vector<unsigned>& threads,
                                                  const std::filesystem::path& sync_folder) {
  std::vector<machine_limit> limits;
  const auto add_accesses = [&](const char* name, bool huge_pages) {
    limits.push_back({name, 1, latency_bytes, 1e9 / random_access_ns(latency_bytes, huge_pages), "accesses"});
  };
  add_accesses("random_access_4k_pages", false);
  add_accesses("random_access_2m_pages", true);
  const auto add_independent = [&](const char* name, const aligned_memory& memory) {
    for (const unsigned count : threads) {
      limits.push_back(
          {name, count, bandwidth_bytes, random_lines_per_second(memory.data(), bandwidth_bytes, count), "accesses"});
    }
  };
  add_independent("independent_access_4k_pages", aligned_memory(bandwidth_bytes, false));
  const aligned_memory memory(bandwidth_bytes, true);
  add_independent("independent_access_2m_pages", memory);
#if defined(__x86_64__)
  limits.push_back({"flush_and_fence", 1, bandwidth_bytes / 4 / line,
                    flushes_per_second(memory.data(), bandwidth_bytes / 4), "lines"});
#endif
  limits.push_back({"read_clock", 1, 1, clock_readings_per_second(), "readings"});
  limits.push_back({"sync", 1, 1, syncs_per_second(sync_folder), "syncs"});
  for (const unsigned count : threads) {
    limits.push_back(
        {"read_bandwidth", count, bandwidth_bytes, reads_per_second(memory.data(), bandwidth_bytes, count), "bytes"});
    limits.push_back(
        {"write_bandwidth", count, bandwidth_bytes, writes_per_second(memory.data(), bandwidth_bytes, count), "bytes"});
    limits.push_back({"fetch_add", count, additions_timed, additions_per_second(count), "additions"});
  }
  return limits;
}

}  // namespace icecore::bench
