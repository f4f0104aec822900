// Finding a key when the pairs are spread over ranks: by asking all ranks, or only the owner.
//
//   const auto look = [&](std::string_view key, version at) { return snapshots.find(key, at); };
//   auto answer = ranks::broadcast_find(comm, {key, version}, look);      // every rank calls it
//
//   if (rank == 0) {                                                      // the asking rank
//     auto value = ranks::routed_find(comm, owner_of(key), {key, version}, look);
//     ranks::end_routed_finds(comm);
//   } else {
//     ranks::serve_routed_finds(comm, look);                              // the others, until it ends
//   }
//
// Threads: by one thread of a rank at a time; the functions use the communicator alone while they run.
// Errors: broadcast_find throws the exception of a lookup on all ranks, routed_find at the rank that asked (the owner
//   continues to serve): as an icecore::error with the same code. errc::damaged if two ranks have the key.
// Cost, besides the lookups: broadcast_find a broadcast and a reduction, O(log ranks) messages one after the other;
//   routed_find two messages. A value of more than 40 bytes and a key of more than 40 bytes each take one message more.
// Source: broadcast_find is the find of "Scalable Multi-Versioning Ordered Key-Value Stores", IPDPS 2022, section V-H.
#pragma once

#include <mpi.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cluster/gather/ranks/team.hpp"
#include "icecore/options.hpp"

namespace icecore::ranks {

/// Which key, in which version.
struct question {
  std::string_view key;
  version at = 0;
};

/// This rank's own answer. The view must be valid until the next call.
using local_lookup = std::function<std::optional<std::string_view>(std::string_view key, version at)>;

/// Collective. The root's question counts; those of other ranks are ignored. Returns the answer at the root; empty
/// elsewhere, and empty if no rank has the key.
[[nodiscard]] std::optional<std::string> broadcast_find(const team& ranks, const question& asked,
                                                        const local_lookup& look, int root = 0);

/// Returns the answer of `owner`, which must be this rank or a rank that is serving.
[[nodiscard]] std::optional<std::string> routed_find(MPI_Comm comm, int owner, const question& asked,
                                                     const local_lookup& look);

/// Answers all ranks that ask, until some rank ends it.
void serve_routed_finds(MPI_Comm comm, const local_lookup& look);

/// Makes all other ranks return from serve_routed_finds. One rank calls it, when no rank will ask any more.
void end_routed_finds(MPI_Comm comm);

}  // namespace icecore::ranks
