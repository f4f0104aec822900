// Merging sorted columns within one process: two inputs by several threads, or many inputs at once.
//
//   pairs out(extent_of(a).plus(extent_of(b)));
//   if (const auto twice = merge_two(a, b, out, threads)) report(*twice);
//
// Threads: the functions write nothing but `out`; merge_two starts threads of its own.
// Errors: none. If two inputs have the same key, the output has it twice, in order, and the function returns it. The
//   caller, which ensures that no two ranks hold a key, decides what that means.
// Widths: inputs and output have the same. 8-byte keys with 8-byte values take a separate path without branches.
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
  linear_scan,  ///< compares all heads for each pair: O(inputs), as a plain K-way merge
};

/// Merges two inputs. The larger one is divided evenly among the threads, and binary search finds the pairs of the
/// other that belong to each part. So every thread knows where its output starts, and threads need no synchronisation.
/// The result goes to the items of `out` from `to` on; `to` is 0 unless all columns have a fixed width.
/// Returns a key that both hold, if there is one. O((a + b) / threads + threads log), if the keys of both are evenly
/// distributed.
[[nodiscard]] std::optional<std::string> merge_two(const pairs_view& a, const pairs_view& b, pairs& out,
                                                   unsigned threads = 1, std::size_t to = 0);

/// Merges any number of inputs in one thread. Returns a key that two of them hold, if there is one.
[[nodiscard]] std::optional<std::string> merge_many(std::span<const pairs_view> inputs, pairs& out,
                                                    heads how = heads::tournament);

}  // namespace icecore::ranks
