// The pairs of all ranks together: in one place, or sorted over all ranks.
//
//   const auto own = store.at(v).extract();                                  // each rank: its part of the snapshot
//   ranks::pairs all = ranks::opt_merge(comm, ranks::view_of(own));          // rank 0 has all, in order
//   ranks::pairs mine = ranks::distributed(comm, ranks::view_of(own));       // each has its stretch of all, in order
//   ranks::stream(comm, ranks::view_of(own), [&](const ranks::pairs_view& some) { write(some); });
//
// Collective: all ranks of the team (of a communicator, team.hpp) call the same function with the same options. A
//   function uses the communicator alone while it runs (duplicate one for it if other messages may be under way), and
//   any number of ranks will do. MPI must be initialised, by whoever; MPI_THREAD_FUNNELED suffices, and
//   MPI_THREAD_SINGLE with 1 thread.
// Preconditions: each rank's part is sorted by key, each key once (a snapshot's extraction is).
// Errors: thrown by all ranks or by none, and nothing is left under way. errc::damaged if two ranks hold a key, naming
//   key and ranks; std::bad_alloc if one has no memory for its result; errc::invalid_argument for a root that is no
//   rank, and if a rank would need more than memory_bytes_max.
// Result: at the root, elsewhere empty, unless said otherwise.
// Sizes: any; what MPI's int counts cannot tell goes in several messages.
// Cost, for N pairs in all on P ranks, besides the messages:
//   gather, concatenate  O(N) at the root        naive_merge  O(N log P) at the root (linear scan: O(N P))
//   opt_merge            O(N) at the root, O(log P) rounds
//   distributed          O(N / P log P) on each   stream       O(N log P) at the root, 2 blocks a rank of memory
// Source: gather, naive_merge (NaiveMerge) and opt_merge (OptMerge) are those of "Scalable Multi-Versioning Ordered
//   Key-Value Stores", IPDPS 2022, sections IV-A and V-H. The samples of distributed are regular: Shi and Schaeffer,
//   "Parallel Sorting by Regular Sampling", J. Parallel and Distributed Computing 14 (1992).
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "cluster/gather/columns/merge.hpp"
#include "cluster/gather/columns/pairs.hpp"
#include "cluster/gather/ranks/team.hpp"

namespace icecore::ranks {

struct gather_options {
  int root = 0;                                          ///< the rank that gets the result
  unsigned threads = 1;                                  ///< of each rank, in opt_merge; 0: all its cores
  ranks::heads heads = heads::tournament;                ///< how naive_merge finds the least head
  std::size_t block_bytes = std::size_t{64} << 10;       ///< of stream: bytes of a block, about
  std::size_t samples_per_rank = 64;                     ///< of distributed: on average
  std::size_t message_bytes_max = std::size_t{1} << 30;  ///< larger ones go in several
  std::size_t pairs_per_piece = std::size_t{1} << 18;    ///< of opt_merge: what is merged while the next comes
  /// What a rank may take for what it receives and merges, besides its own part. stream keeps to its blocks.
  std::uint64_t memory_bytes_max = UINT64_MAX;
};

/// All pairs, rank after rank: each rank's in order, the whole in none.
[[nodiscard]] pairs gather(const team& ranks, const pairs_view& own, const gather_options& how = {});

/// All pairs in order: gathered, then merged from all ranks' parts at once.
[[nodiscard]] pairs naive_merge(const team& ranks, const pairs_view& own, const gather_options& how = {});

/// All pairs in order: in rounds, the ranks at odd places send what they have to those at even places before them, who
/// merge it with theirs by several threads, while more of it comes, and stay for the next round.
[[nodiscard]] pairs opt_merge(const team& ranks, const pairs_view& own, const gather_options& how = {});

/// All pairs in order, of ranks that hold ranges of keys: rank after rank, without a merge.
/// errc::invalid_argument if a rank's keys are not all greater than those of the ranks before it.
[[nodiscard]] pairs concatenate(const team& ranks, const pairs_view& own, const gather_options& how = {});

/// Each rank's stretch of all pairs in order: keys of a rank are greater than those of the ranks before it. About equal
/// stretches, by samples; a rank's may be empty.
[[nodiscard]] pairs distributed(const team& ranks, const pairs_view& own, const gather_options& how = {});

/// errc::invalid_argument if a rank that needs so many bytes may not take them.
void require_room(const gather_options& how, std::uint64_t bytes);

/// Called with some pairs at a time; the views are valid during the call.
using pairs_sink = std::function<void(const pairs_view&)>;
/// The next block of a rank's part, which is valid until the next call; no pairs at the end. Its columns have offsets.
using next_block = std::function<pairs_view()>;

/// Calls `sink` at the root with all pairs in order. The root's memory is bounded by two blocks for each rank, a block
/// being block_bytes or one pair, if that is larger. An exception of `sink` ends the streaming on all ranks.
void stream(const team& ranks, const pairs_view& own, const pairs_sink& sink, const gather_options& how = {});
/// The same of parts that are read block by block: every rank's memory is bounded. An exception of `own` is thrown on
/// all ranks, when the sink has got some of the pairs.
void stream(const team& ranks, const next_block& own, const pairs_sink& sink, const gather_options& how = {});

}  // namespace icecore::ranks
