// Clocks, medians, random numbers, threads that start together, and checks of answers.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace icecore::bench {

struct settings {
  std::uint64_t keys = 2'000'000;
  unsigned repetitions = 5;
  std::vector<unsigned> threads = {1, 2};
  std::filesystem::path folder = "/dev/shm";
};

/// A bijection on 64-bit numbers that looks random (the finaliser of splitmix64): key i of a store of random keys.
[[nodiscard]] constexpr std::uint64_t random_key(std::uint64_t i) noexcept {
  i += 0x9e3779b97f4a7c15U;
  i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9U;
  i = (i ^ (i >> 27)) * 0x94d049bb133111ebU;
  return i ^ (i >> 31);
}

/// The bytes of a number as a key or a value; they live as long as the number.
[[nodiscard]] inline std::string_view bytes_of(const std::uint64_t& number) noexcept {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

/// Ends a benchmark whose store answers wrongly: its times mean nothing.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::exit(1);
}

/// A stream of random numbers that costs little compared with the measured work.
class random_numbers {
 public:
  explicit random_numbers(std::uint64_t seed) noexcept : state_(random_key(seed) | 1) {}
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::uint64_t>((static_cast<wide>(state_) * bound) >> 64);
  }

 private:
  __extension__ typedef unsigned __int128 wide;
  std::uint64_t state_;
};

[[nodiscard]] inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Where the median of what is measured lies, from repetitions that do not depend on each other: between two of them,
/// the n-th least and the n-th greatest, for the greatest n with at least 95 % confidence (a sign test, which assumes
/// nothing of how they are distributed); between the least and the greatest where there are fewer than six.
struct interval {
  double low, high;
  double confidence;  ///< 0.9375 of five repetitions, 0 of one
};

[[nodiscard]] inline interval interval_of_median(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const std::size_t n = values.size();
  // The chance that at most k of n repetitions are below the median, by sums of the binomial distribution of 1/2.
  double term = std::exp2(-static_cast<double>(n)), below = term;
  interval found{.low = values.front(), .high = values.back(), .confidence = 1 - 2 * below};
  constexpr double wanted = 0.95;
  for (std::size_t k = 1; 2 * k + 1 < n; ++k) {
    term *= static_cast<double>(n - k + 1) / static_cast<double>(k);
    below += term;
    if (1 - 2 * below < wanted) break;
    found = {.low = values[k], .high = values[n - 1 - k], .confidence = 1 - 2 * below};
  }
  if (n == 1) found.confidence = 0;
  return found;
}

[[nodiscard]] inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Runs `work(thread)` in `count` threads and returns the seconds from their common start to the end of the last one.
/// Rethrows the first exception.
inline double timed_in_threads(unsigned count, const std::function<void(unsigned)>& work) {
  std::chrono::steady_clock::time_point begin;
  std::barrier start(static_cast<std::ptrdiff_t>(count), [&]() noexcept { begin = std::chrono::steady_clock::now(); });
  std::mutex together;
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < count; ++thread) {
    threads.emplace_back([&, thread] {
      start.arrive_and_wait();
      try {
        work(thread);
      } catch (...) {
        const std::lock_guard lock(together);
        failure = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const double seconds = seconds_since(begin);
  if (failure) std::rethrow_exception(failure);
  return seconds;
}

/// A store's file, named after this process and removed before and after.
class scratch_file {
 public:
  scratch_file(const std::filesystem::path& folder, const std::string& name)
      : path_(folder / (name + "-" + std::to_string(getpid()) + ".ice")) {
    remove();
  }
  ~scratch_file() { remove(); }
  scratch_file(const scratch_file&) = delete;
  scratch_file& operator=(const scratch_file&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  void remove() const {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  std::filesystem::path path_;
};

}  // namespace icecore::bench
