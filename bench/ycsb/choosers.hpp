// YCSB's choosers, which select the record of an operation.
//
//   const scrambled_zipfian popular(records, theta_default);
//   const std::uint64_t record = popular(random);   // 0 .. records - 1
//
// Threads: drawing only changes the random numbers, so threads may share a chooser that does not grow; each thread has
//   its own random numbers. Determinism: the same seed draws the same records.
// Cost: O(1) per draw, one or two powers; constructing one takes a thousand powers for any number of records.
// Sources: B. F. Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010, section 4; J. Gray et al.,
//   "Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994, for the ranks.
#pragma once

#include <cstdint>

#include "../measure.hpp"

namespace icecore::bench::ycsb {

/// The value that YCSB and the papers that use it take.
inline constexpr double theta_default = 0.99;

/// A number from 0 to below 1, a multiple of 2^-53.
[[nodiscard]] inline double unit(random_numbers& random) noexcept {
  constexpr std::uint64_t steps = std::uint64_t{1} << 53;
  return static_cast<double>(random.below(steps)) / static_cast<double>(steps);
}

/// 1 / 1^theta + 1 / 2^theta + ... + 1 / n^theta, to twelve digits. O(1). Precondition: 0 < theta < 1.
[[nodiscard]] double zeta(std::uint64_t n, double theta);

/// FNV-1a of the eight bytes of a number, as YCSB's Utils.fnvhash64.
[[nodiscard]] std::uint64_t fnv_hash(std::uint64_t number) noexcept;

/// Ranks 0 .. count - 1, rank r with a probability of about 1 / (r + 1)^theta / zeta(count): exactly so for ranks 0 and
/// 1, from a continuous curve for the others.
class zipfian {
 public:
  /// Precondition: count > 0 and 0 < theta < 1.
  zipfian(std::uint64_t count, double theta);

  [[nodiscard]] std::uint64_t operator()(random_numbers& random) const;

  /// Sets a new number of ranks, no fewer than before. O(new ranks).
  void grow(std::uint64_t count);

 private:
  void set_curve();

  std::uint64_t count_;
  double theta_, zeta_count_, eta_ = 0;
};

/// The same frequencies, but the popular records are scattered over all records. As in YCSB, ranks are drawn from ten
/// thousand million for any number of records, and hashed. So the share of the most popular record does not depend on
/// the number of records.
class scrambled_zipfian {
 public:
  /// Precondition: records > 0 and 0 < theta < 1.
  scrambled_zipfian(std::uint64_t records, double theta) : ranks_(rank_count, theta), records_(records) {}

  [[nodiscard]] std::uint64_t operator()(random_numbers& random) const { return fnv_hash(ranks_(random)) % records_; }

  static constexpr std::uint64_t rank_count = 10'000'000'000;

 private:
  zipfian ranks_;
  std::uint64_t records_;
};

}  // namespace icecore::bench::ycsb
