// Gives the records of a checkpoint to the ranks of another cluster: each rank reads some of its files, and all send
// each other what the other owns. A large value does not travel: its owner reads it from the checkpoint's file, which
// all ranks see, and checks it there. So its bytes are read once and written once.
//
// Records travel in the order of their versions, in rounds of bounded size, so that each rank writes its new store
// version by version through the calls that any writer uses.
//
// Invariants:
//   R1 What is sent in a round is not older than anything sent in rounds before: a round ends at the least of the
//      versions that the ranks can send up to, and what all ranks have below it goes out in it.
//   R2 Records of one key come from one file, in their order, by one way: those of one version in that of their depth.
//   R3 A tag travels as the first thing of the version after its own: when it is made, all records of its version are
//      there, and none of the next.
// Threads: one.
// Cost: 24 bytes of memory for each record of a rank's files, 32 while they are read, besides the rounds and the
//   largest value; each record is read once and sent once.
// Source: PapyrusKV, SC 2017, section 4.2 (restart with redistribution).
#pragma once

#include <filesystem>
#include <string>

#include "cluster/agreement.hpp"
#include "cluster/open/manifest.hpp"
#include "icecore/cluster.hpp"

namespace icecore::mpi {

struct redistribution {
  int rank;
  int ranks;
  std::filesystem::path folder;  ///< of the checkpoint
  manifest from;                 ///< what it consists of
  std::filesystem::path pool;    ///< the store of this rank, which is made
  const cluster_options* opening;
};

/// Makes this rank's store, closed and durable, and returns its pool's id (collective). Throws the error of any rank on
/// all of them; what is there of the stores then is not whole.
[[nodiscard]] std::string redistribute(const redistribution& what, agreement& agree);

}  // namespace icecore::mpi
