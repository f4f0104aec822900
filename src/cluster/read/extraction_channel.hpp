// The ranks of a cluster as those of cluster/gather, with messages of their own.
//
//   extraction_channel channel(comm, running);          // collective
//   ranks::opt_merge(channel.ranks(), own);
//
// Its communicator is not that of the cluster's requests and agreements, so no message is taken for another's. Whoever
// waits in it answers other ranks (P1 of progress.hpp). Long local work is done in a thread beside where nobody else
// would answer, unless the program was promised that MPI sees no second thread.
// Threads: one of a rank at a time.
#pragma once

#include <mpi.h>

#include "cluster/communicator.hpp"
#include "cluster/gather/ranks/team.hpp"
#include "cluster/messages/progress.hpp"

namespace icecore::mpi {

class extraction_channel {
 public:
  extraction_channel(MPI_Comm cluster, progress& running);

  [[nodiscard]] const ranks::team& ranks() const noexcept { return ranks_; }
  void abandon() noexcept { comm_.abandon(); }

 private:
  communicator comm_;
  ranks::team ranks_;
};

}  // namespace icecore::mpi
