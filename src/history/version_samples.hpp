// Finds a version in a deep history: every eighth record from depth 64 on, in arrays that can be searched.
//
// Jump links find a version in O(log depth) records, each a cache miss if the history is larger than the caches. The
// samples take 2 bytes a record, so a search in a history of a million records costs about as much as in one of a
// thousand: two or three misses. They only speed searches up, and lie in memory: samples may be missing, but none may
// be wrong.
//
//   samples.add(entry, depth, version, record);             // once the record is stamped
//   link from = samples.start(entry, depth, v, newest, newest_version);    // at or above the record that v shows
//
// Threads: all functions from any thread; lock-free. Only the thread that linked a record calls add() for its depth;
//   the same holds in recovery.
// Cost: add O(1); start O(log depth). Memory: 16 bytes for each eighth record of deep histories.
// Invariants:
//   V1. A slot is written once: link first, then version (release). Version 0: missing.
//   V2. The versions in slots never decrease (H1), so binary search may treat missing ones as too new.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "icecore/options.hpp"
#include "pool/link.hpp"

namespace icecore {

class version_samples {
 public:
  static constexpr std::uint32_t depth_min = 64;  ///< below this there are no samples
  static constexpr std::uint32_t spacing = 8;     ///< depths between samples

  version_samples();
  ~version_samples();
  version_samples(const version_samples&) = delete;
  version_samples& operator=(const version_samples&) = delete;

  [[nodiscard]] static constexpr bool wanted(std::uint32_t depth) noexcept {
    return depth >= depth_min && depth % spacing == 0;
  }

  /// Precondition: wanted(depth). If memory runs out, the sample is left out.
  void add(link entry, std::uint32_t depth, version stamped, link record) noexcept;

  /// The lowest sampled record of the entry that is newer than `v`; `newest`, of depth `depth`, if there is none. If
  /// samples are missing it may be a higher one, but it is never below the record that v shows.
  [[nodiscard]] link start(link entry, std::uint32_t depth, version v, link newest,
                           version newest_stamped) const noexcept;

 private:
  struct slot {
    std::atomic<version> stamped{0};
    std::atomic<link> record{null_link};
  };
  struct history;

  [[nodiscard]] std::atomic<history*>& bucket_of(link entry) const noexcept;
  [[nodiscard]] history* find(link entry) const noexcept;
  [[nodiscard]] static link record_behind(const history& h, std::size_t i, version v, link otherwise) noexcept;

  static constexpr std::size_t bucket_count = 4096;
  std::unique_ptr<std::atomic<history*>[]> buckets_;
};

}  // namespace icecore
