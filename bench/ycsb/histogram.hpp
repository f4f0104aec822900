// Counts durations and reports their percentiles.
//
//   histogram reads;
//   reads.add(ns);
//   const std::uint64_t p99_ns = reads.percentile(99);
//
// Buckets are log-linear, like HdrHistogram's: exact below 128 ns, above that 64 for each power of two, so reported
// numbers are at most 1.6 % too large. 30 KiB, no allocation; only one thread adds.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace icecore::bench::ycsb {

class histogram {
 public:
  void add(std::uint64_t ns) noexcept {
    ++counts_[bucket_of(ns)];
    ++count_;
    max_ = std::max(max_, ns);
  }

  void add(const histogram& other) noexcept {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    max_ = std::max(max_, other.max_);
  }

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t max() const noexcept { return max_; }

  /// The least number such that at least `percent` of the added numbers are not greater, up to the width of its bucket;
  /// 0 if none was added.
  [[nodiscard]] std::uint64_t percentile(double percent) const noexcept {
    const auto wanted = static_cast<std::uint64_t>(std::ceil(static_cast<double>(count_) * percent / 100));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen != 0 && seen >= wanted) return std::min(last_of(i), max_);
    }
    return max_;
  }

 private:
  static constexpr unsigned exact_bits = 7;  // numbers with at most this many bits have a bucket each
  static constexpr std::size_t half = std::size_t{1} << (exact_bits - 1);

  [[nodiscard]] static std::size_t bucket_of(std::uint64_t ns) noexcept {
    const auto bits = static_cast<unsigned>(std::bit_width(ns));
    if (bits <= exact_bits) return ns;
    const unsigned shift = bits - exact_bits;
    return shift * half + (ns >> shift);
  }

  /// The greatest number in the bucket.
  [[nodiscard]] static std::uint64_t last_of(std::size_t bucket) noexcept {
    if (bucket < 2 * half) return bucket;
    const std::size_t shift = bucket / half - 1;
    return ((bucket - shift * half + 1) << shift) - 1;
  }

  std::array<std::uint64_t, (64 - exact_bits + 2) * half> counts_{};
  std::uint64_t count_ = 0, max_ = 0;
};

}  // namespace icecore::bench::ycsb
