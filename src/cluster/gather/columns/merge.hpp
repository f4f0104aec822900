// Merging sorted columns within one process: two by several threads, many at once.
//
//   pairs out(extent_of(a).plus(extent_of(b)));
//   if (const auto twice = merge_two(a, b, out, threads)) report(*twice);
//
// Threads: the functions are pure but for what they write to `out`; merge_two starts threads of its own.
// Errors: none. A key that is in two inputs is both times in the output, in order, and is told: whoever has promised
//   that no two ranks hold a key decides what that means.
// Widths: inputs and output have the same; 8-byte keys with 8-byte values take a path of their own without branches.
// Source: merge_two is the multi-threaded merge of "Scalable Multi-Versioning Ordered Key-Value Stores", IPDPS 2022,
//   section IV-A.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "cluster/gather/columns/pairs.hpp"

namespace icecore::ranks {

/// How the least of many heads is found.
enum class heads {
  tournament,   ///< a tree of losers: O(log inputs) for each pair
  linear_scan,  ///< all heads are looked at for each pair: O(inputs), as a plain K-way merge does it
};

/// Merges two inputs. The larger one is parted evenly among the threads, binary search finds what of the other belongs
/// to each part, and so all threads know where their output goes and need no word with each other.
/// The result goes to the items of `out` from `to` on; `to` is 0 unless all columns have a fixed width.
/// A key that both hold, if there is one. O((a + b) / threads + threads log), if the keys of both lie evenly.
[[nodiscard]] std::optional<std::string> merge_two(const pairs_view& a, const pairs_view& b, pairs& out,
                                                   unsigned threads = 1, std::size_t to = 0);

/// Merges any number of inputs by one thread. A key that two of them hold, if there is one.
[[nodiscard]] std::optional<std::string> merge_many(std::span<const pairs_view> inputs, pairs& out,
                                                    heads how = heads::tournament);

}  // namespace icecore::ranks
