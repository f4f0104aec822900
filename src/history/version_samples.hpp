// Finds a version in a deep history: every eighth record from depth 64 on, in arrays that can be searched.
//
// Jump links find a version in O(log depth) records, each a cache miss if the history is larger than the caches. The
// samples take 2 bytes a record, so a search in a history of a million records costs about as much as in one of a
// thousand: two or three misses. They only speed searches up, and lie in memory: samples may be missing, but none may
// be wrong.
//
//   samples.add(entry, depth, version, record);             // once the record is stamped
//   const auto [from, is_near, all_sampled] = samples.start(entry, depth, v, newest, newest_version);
//                                                           // at or above the record that v shows
//
// Histories that this process has neither written nor read when it opened the store have no samples: after an instant
// recovery, and in a process that is attached. Finds sample them, from the newest record downwards, some records each:
//
//   if (!all_sampled) {
//     version_samples::turn mine(samples, entry, depth, newest);
//     for (link l = mine.next(); ...; l = the record below l) mine.add(depth, version, l);
//   }
//
// Threads: all functions from any thread; lock-free. Several threads may add one record, with the same version; one at
//   a time has a history's turn.
// Cost: add O(1); start O(log depth). Memory: 16 bytes for each eighth record of deep histories.
// Invariants:
//   V1. A slot is only ever written with one content: link first, then version (release). Version 0: missing.
//   V2. The versions in slots never decrease (H1), so binary search may treat missing ones as too new.
//   V3. `lowest` of a history, if it is set, is a slot that is filled. The search begins there unless slot 0 is filled.
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

  struct place {
    link record;
    bool is_near;      ///< the record that v shows is less than `spacing` below, if no sample between is missing
    bool all_sampled;  ///< the samples reach down to depth_min
  };
  /// The lowest sampled record of the entry that is newer than `v`; `newest`, of depth `depth`, if there is none. If
  /// samples are missing it may be a higher one, but it is never below the record that v shows.
  [[nodiscard]] place start(link entry, std::uint32_t depth, version v, link newest,
                            version newest_stamped) const noexcept;

  class turn;

 private:
  struct slot {
    std::atomic<version> stamped{0};
    std::atomic<link> record{null_link};
  };
  struct history;

  [[nodiscard]] std::atomic<history*>& bucket_of(link entry) const noexcept;
  [[nodiscard]] history* find(link entry) const noexcept;
  /// The entry's history, made if need be; null if there is no memory.
  [[nodiscard]] history* find_or_make(link entry) noexcept;
  static void fill(history& h, std::uint32_t depth, version stamped, link record) noexcept;
  [[nodiscard]] static link record_behind(const history& h, std::size_t i, version v, link otherwise) noexcept;

  static constexpr std::size_t bucket_count = 4096;
  std::unique_ptr<std::atomic<history*>[]> buckets_;
  /// Searches, by bucket, that found no sample, up to a limit.
  std::unique_ptr<std::atomic<std::uint8_t>[]> misses_;
};

/// The right to sample a history further; it ends with the object.
class version_samples::turn {
 public:
  static constexpr std::uint32_t records_max = 128;  ///< that one turn should read
  /// Shallower histories are not sampled by finds: that saves a search few records.
  static constexpr std::uint32_t history_depth_min = 256;
  /// So many searches without samples come before the first turn: one pass over all keys should not sample them all.
  static constexpr std::uint8_t misses_min = 16;

  turn(version_samples& in, link entry, std::uint32_t depth, link newest) noexcept;
  ~turn();
  turn(const turn&) = delete;
  turn& operator=(const turn&) = delete;

  /// Where to go on; null_link if this thread has no turn.
  [[nodiscard]] link next() const noexcept { return next_; }
  /// Call for each record in order. `below` is the next older one.
  void add(std::uint32_t depth, version stamped, link record, link below) noexcept;
  /// The history cannot be read further: no more turns.
  void give_up() noexcept { given_up_ = true; }

 private:
  history* of_ = nullptr;
  link next_ = null_link;
  bool given_up_ = false;
};

}  // namespace icecore
