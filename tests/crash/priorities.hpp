// Interleavings with few changes of writers, each at a place drawn at random: for scenarios that have too many to run
// all.
//
//   priority_schedule how(seed, steps);
//   fibers::run({a, b, c}, how);
//
// Probabilistic concurrency testing (S. Burckhardt et al.: A randomized scheduler with probabilistic guarantees of
// finding bugs, ASPLOS 2010): each writer has a priority, the ready one with the highest goes on, and at d - 1 steps
// drawn beforehand whoever goes on gets the lowest. What needs d steps of n writers in a certain order is found by a
// run of k steps with a probability of at least 1 / (n k^(d-1)), wherever they are; most defects need two or three.
// (The first runs of a depth-first order change writers only in the last steps of the first one.)
//
// A writer that waits for another one by reading gets the lowest priority, too.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "fibers.hpp"
#include "spinning.hpp"

namespace icecore::crash {

class priority_schedule final : public schedule {
 public:
  static constexpr std::size_t steps_max = 1'000'000;  ///< of a run; beyond it nothing ends

  /// `steps`: about as many as the run will have. The seed draws the order of the writers, the depth d from 2 to 4, and
  /// the steps at which priorities change.
  priority_schedule(std::uint64_t seed, std::size_t steps);

  unsigned choose(unsigned current, const std::vector<step>& next, const std::vector<bool>& ready) override;

  /// Made so far.
  [[nodiscard]] std::size_t steps() const noexcept { return made_; }

 private:
  void lower(unsigned writer) noexcept { priority_[writer] = --lowest_; }

  std::mt19937_64 random_;
  std::vector<std::size_t> changes_;    // steps, ascending
  std::vector<std::int64_t> priority_;  // of each writer, all different
  std::int64_t lowest_ = 0;
  std::vector<spinning> spins_;
  std::size_t made_ = 0;
};

}  // namespace icecore::crash
