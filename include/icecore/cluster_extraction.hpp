// Extracting one version of a cluster: all its pairs as columns, on one rank or sorted over all.
//
//   const icecore::cluster_snapshot then = c.at("hour-1");
//   const icecore::extracted_pairs all = then.extract(icecore::extraction_method::opt_merge);   // every rank calls it
//   for (std::size_t i = 0; i < all.size(); ++i) use(all[i].key, all[i].value);                 // rank 0 has all
//
// Collective: every rank calls extract, stream and find_by_broadcast of a snapshot (cluster_snapshot.hpp), in the order
//   of all collective calls, with the same arguments. Ranks that wait in them answer the requests of others.
// Lifetime: the result is a copy; it does not need the cluster any more.
// Cost, for N pairs on P ranks, besides reading each rank's own pairs:
//   gather, concatenate  O(N) at the root        naive_merge  O(N log P) at the root (linear scan: O(N P))
//   opt_merge            O(N) at the root, O(log P) rounds
//   distributed          O(N / P log P) on each   stream       O(N log P) at the root
// Source: gather, naive_merge (NaiveMerge) and opt_merge (OptMerge), IPDPS 2022, sections IV-A and V-H.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "icecore/options.hpp"
#include "icecore/snapshot.hpp"

namespace [[gnu::visibility("default")]] icecore {

/// How the pairs of all ranks are put together.
enum class extraction_method : std::uint8_t {
  gather = 0,       ///< rank after rank at the root: each rank's pairs are in order, the result is not
  naive_merge = 1,  ///< in order at the root: gathered, then merged from all ranks' parts at once
  opt_merge = 2,    ///< in order at the root: merged in pairs of ranks, in rounds, by several threads
  concatenate = 3,  ///< in order at the root, without a merge: for owners that hold ranges of keys
  distributed = 4,  ///< in order over all ranks: each has a section of about equal size, which follows that of the rank
                    ///< before it
};

struct extraction_options {
  int root = 0;         ///< the rank that gets the result; distributed has none
  key_bounds bounds{};  ///< key_bounds::of_prefix for a prefix
  /// Threads of each rank, for reading its own pairs and for the merges of opt_merge; 0: all its cores.
  unsigned threads = 1;
  /// naive_merge compares the heads of all ranks for each pair, as a plain K-way merge does, instead of using a
  /// tournament.
  bool linear_scan = false;
  /// The most bytes that each rank may take for its own pairs, and again for what it receives and merges. stream
  /// reduces its blocks so that they fit.
  std::uint64_t memory_bytes_max = UINT64_MAX;
  /// For extract: any one thread of each rank calls it with each of the rank's own pairs, before they are sent. Its
  /// exception is thrown on all ranks. Empty: no check.
  std::function<void(const item&)> check{};
};

/// Pairs in columns that the object owns. Copies share them.
class extracted_pairs {
 public:
  /// Item i is the `width` bytes at bytes[i * width] if width is not 0, else bytes[offsets[i] .. offsets[i + 1]).
  struct column {
    std::size_t width = 0;  ///< not 0 only if all items have this size
    std::span<const std::uint64_t> offsets{};
    std::span<const char> bytes{};

    [[nodiscard]] std::string_view operator[](std::size_t i) const noexcept {
      const std::size_t from = width != 0 ? i * width : offsets[i];
      const std::size_t to = width != 0 ? from + width : offsets[i + 1];
      return {bytes.data() + from, to - from};
    }
  };

  extracted_pairs() = default;
  /// `memory` is kept as long as this object or a copy exists.
  extracted_pairs(std::size_t size, const column& keys, const column& values, std::shared_ptr<const void> memory)
      : size_(size), keys_(keys), values_(values), memory_(std::move(memory)) {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// Views that are valid as long as this object or a copy exists. Precondition: i < size().
  [[nodiscard]] item operator[](std::size_t i) const noexcept { return {keys_[i], values_[i]}; }
  [[nodiscard]] const column& keys() const noexcept { return keys_; }
  [[nodiscard]] const column& values() const noexcept { return values_; }

 private:
  std::size_t size_ = 0;
  column keys_;
  column values_;
  std::shared_ptr<const void> memory_;
};

/// Called with some pairs at a time, in order; the views are valid during the call.
using extraction_sink = std::function<void(std::span<const item>)>;

}  // namespace icecore
