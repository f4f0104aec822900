// Knows the value of each key at each version of a run, from the versions that its writes returned. Makes questions
// with their expected answers.
#pragma once

#include <span>

#include "phases.hpp"

namespace icecore::bench {

/// Keys with one insert, and at most one remove after it.
class timeline {
 public:
  /// Key i has value i from inserted[i] to before removed[i]; removed[i] is 0 if it was never removed. The spans and
  /// the keys must outlive this object. There may be fewer removes than keys.
  timeline(const key_list& keys, std::span<const version> inserted, std::span<const version> removed)
      : keys_(keys), inserted_(inserted), removed_(removed) {}

  [[nodiscard]] std::uint64_t value_at(std::size_t i, version at) const {
    if (at < inserted_[i]) return missing;
    return i < removed_.size() && removed_[i] != 0 && removed_[i] <= at ? missing : i;
  }

  /// `count` random keys, each at a random version from 1 to `newest`.
  [[nodiscard]] questions ask(std::uint64_t count, version newest, std::uint64_t seed) const;

  /// The changes of key i, newest first.
  void changes_of(std::size_t i, std::vector<recorded_change>& out) const;

  /// Throws unless `pairs` is the snapshot of `at`. `sorted` are the numbers of the keys in key order.
  void check_snapshot(const pair_columns& pairs, version at, std::span<const std::uint32_t> sorted) const;

 private:
  const key_list& keys_;
  std::span<const version> inserted_, removed_;
};

}  // namespace icecore::bench
