// The pairs of all ranks together: at one rank, or sorted over all ranks.
//
//   const auto own = store.at(v).extract();                                  // each rank: its part of the snapshot
//   ranks::pairs all = ranks::opt_merge(comm, ranks::view_of(own));          // rank 0 has all, in order
//   ranks::pairs mine = ranks::distributed(comm, ranks::view_of(own));       // each has its section of all, in order
//   ranks::stream(comm, ranks::view_of(own), [&](const ranks::pairs_view& some) { write(some); });
//
// Collective: all ranks of the team (of a communicator, team.hpp) call the same function with the same options. While a
//   function runs, only it may use the communicator (duplicate one for it if other messages may be under way). Any
//   number of ranks is allowed. The program must have initialised MPI; MPI_THREAD_FUNNELED suffices, and with 1 thread
//   MPI_THREAD_SINGLE.
// Preconditions: each rank's part is sorted by key, each key once (a snapshot's extraction is).
// Errors: thrown by all ranks or by none; no message is under way afterwards. errc::damaged if two ranks hold a key,
//   naming the key and the ranks; std::bad_alloc if a rank has no memory for its result; errc::invalid_argument if the
//   root is not a rank, and if a rank would need more than memory_bytes_max.
// Result: at the root; empty elsewhere, unless said otherwise.
// Sizes: any. Data that exceeds MPI's int counts is sent in several messages.
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
  unsigned threads = 1;                                  ///< threads of each rank in opt_merge; 0: all its cores
  ranks::heads heads = heads::tournament;                ///< how naive_merge finds the least head
  std::size_t block_bytes = std::size_t{64} << 10;       ///< of stream: approximate bytes of a block
  std::size_t samples_per_rank = 64;                     ///< of distributed: average number
  std::size_t message_bytes_max = std::size_t{1} << 30;  ///< larger ones are split
  std::size_t pairs_per_piece = std::size_t{1} << 18;    ///< of opt_merge: pairs that are merged while the next are
                                                         ///< received
  /// The most memory a rank may take for what it receives and merges, besides its own part. stream ignores it: its
  /// blocks bound its memory.
  std::uint64_t memory_bytes_max = UINT64_MAX;
};

/// All pairs, rank after rank: those of each rank are in order, the result as a whole is not.
[[nodiscard]] pairs gather(const team& ranks, const pairs_view& own, const gather_options& how = {});

/// All pairs in order: gathered, then merged from all ranks' parts at once.
[[nodiscard]] pairs naive_merge(const team& ranks, const pairs_view& own, const gather_options& how = {});

/// All pairs in order, merged in rounds: in each round the ranks at odd places send their pairs to the ranks at even
/// places before them. A receiver merges them with its own by several threads while more pieces arrive, and stays for
/// the next round.
[[nodiscard]] pairs opt_merge(const team& ranks, const pairs_view& own, const gather_options& how = {});

/// All pairs in order, if ranks hold ranges of keys: rank after rank, without a merge.
/// errc::invalid_argument if a rank's keys are not all greater than those of the ranks before it.
[[nodiscard]] pairs concatenate(const team& ranks, const pairs_view& own, const gather_options& how = {});

/// Each rank's section of all pairs in order: the keys of a rank are greater than those of the ranks before it. Samples
/// make the sections about equal; one may be empty.
[[nodiscard]] pairs distributed(const team& ranks, const pairs_view& own, const gather_options& how = {});

/// errc::invalid_argument if a rank that needs so many bytes may not take them.
void require_room(const gather_options& how, std::uint64_t bytes);

/// Called with some pairs at a time; the views are valid during the call.
using pairs_sink = std::function<void(const pairs_view&)>;
/// Returns the next block of a rank's part, valid until the next call; a block without pairs at the end. Its columns
/// have offsets.
using next_block = std::function<pairs_view()>;

/// Calls `sink` at the root with all pairs in order. The root holds at most two blocks for each rank; a block is
/// block_bytes, or one pair if that is larger. An exception of `sink` ends the stream on all ranks.
void stream(const team& ranks, const pairs_view& own, const pairs_sink& sink, const gather_options& how = {});
/// The same for parts that are read block by block: the memory of every rank is bounded. An exception of `own` is
/// thrown on all ranks; the sink may then have got some of the pairs.
void stream(const team& ranks, const next_block& own, const pairs_sink& sink, const gather_options& how = {});

}  // namespace icecore::ranks
