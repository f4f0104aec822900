#include "cluster/read/extraction_channel.hpp"

#include "cluster/agreement.hpp"

namespace icecore::mpi {

extraction_channel::extraction_channel(MPI_Comm cluster, progress& running)
    : comm_(cluster, waiting_in(running).until), ranks_(comm_.get(), waiting_in(running)) {}

}  // namespace icecore::mpi
