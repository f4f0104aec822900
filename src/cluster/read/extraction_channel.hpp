// The ranks of a cluster as a team of cluster/gather, with a communicator of its own.
//
//   extraction_channel channel(comm, running);          // collective
//   ranks::opt_merge(channel.ranks(), own);
//
// Its communicator is separate from that of the cluster's requests and agreements, so no message is received in the
// wrong place. A thread that waits in it answers other ranks (P1 of progress.hpp). If no thread of the cluster answers
// them, long local work is done in a second thread, unless MPI was initialised for one thread only.
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
