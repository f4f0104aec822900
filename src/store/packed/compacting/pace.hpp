// Holds a compaction to a number of bytes a second, and lets it rest.
//
//   pace slow(20 << 20, [&] { rest_while_paused(); });
//   slow.spend(bytes_written);      // sleeps until so many bytes may have been written; may throw what rest throws
//
// Threads: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace icecore::detail {

class pace {
 public:
  /// `bytes_per_second` 0: as fast as it goes. `rest` is called every now and then; it may throw to end the work.
  explicit pace(std::uint64_t bytes_per_second, std::function<void()> rest = {})
      : rate_(bytes_per_second), rest_(std::move(rest)) {}

  void spend(std::uint64_t bytes) {
    constexpr std::chrono::milliseconds nap(50);
    if (rest_) rest_();
    if (rate_ == 0) return;
    clock::time_point until;
    {
      const std::scoped_lock lock(mutex_);
      const auto now = clock::now();
      if (free_from_ < now) free_from_ = now;
      free_from_ += std::chrono::nanoseconds(
          static_cast<std::int64_t>(static_cast<double>(bytes) / static_cast<double>(rate_) * 1e9));
      until = free_from_;
    }
    for (auto now = clock::now(); now < until; now = clock::now()) {
      std::this_thread::sleep_for(std::min<clock::duration>(nap, until - now));
      if (rest_) rest_();
    }
  }

 private:
  using clock = std::chrono::steady_clock;

  std::uint64_t rate_;
  std::function<void()> rest_;
  std::mutex mutex_;
  clock::time_point free_from_;  // when all that was written may have been
};

}  // namespace icecore::detail
