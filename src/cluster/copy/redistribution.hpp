// Gives the records of a checkpoint to the ranks of another cluster. Each rank reads some of the checkpoint's files,
// and every rank sends each record to its new owner. A large value is not sent: its owner reads and checks it in the
// checkpoint's file, which all ranks can read. So the bytes of a large value are read once and written once.
//
// Records are sent in the order of their versions, in rounds of bounded size, so that each rank writes its new store
// version by version through the calls that any writer uses.
//
// Invariants:
//   R1 Nothing that is sent in a round is older than anything sent in an earlier round. Each rank can send up to some
//      version; a round ends at the least of these versions, and every rank sends all that it has below it in this
//      round.
//   R2 All records of a key come from one file, in their order and by one path: records of one version are ordered by
//      their depth.
//   R3 A tag is sent as the first item of the version after its own. When the receiver makes the tag, it has all
//      records of the tag's version and none of the next.
// Threads: one.
// Cost: 24 bytes of memory for each record of a rank's files, 32 while they are read, besides the rounds and the
//   largest value; each record is read once and sent once.
// Source: PapyrusKV, SC 2017, section 4.2 (restart with redistribution).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cluster/agreement.hpp"
#include "icecore/cluster.hpp"

namespace icecore::mpi {

struct redistribution {
  int rank;
  int ranks;
  std::vector<std::filesystem::path> files;  ///< of the checkpoint, or stores in place of one
  std::vector<std::string> pools;            ///< the pool that each file must be; empty: any
  std::filesystem::path pool;                ///< the store of this rank, which is created
  const cluster_options* opening;
};

/// Makes this rank's store, closed and durable, and returns its pool's id (collective). An error on any rank is thrown
/// on all ranks; the stores are then incomplete.
[[nodiscard]] std::string redistribute(const redistribution& what, agreement& agree);

}  // namespace icecore::mpi
