// A version that a power cut took on some rank (store::lost_versions()) is lost to the whole cluster, because the other
// ranks' part of it is not a state that the cluster ever had.
//
// Collective: every rank calls it at the same place. Errors: those of MPI. Cost: a gather of some hundred bytes a rank.
#pragma once

#include "cluster/agreement.hpp"
#include "icecore/version_ranges.hpp"

namespace icecore::mpi {

[[nodiscard]] version_ranges lost_on_any_rank(agreement& agree, int ranks, const version_ranges& mine);

}  // namespace icecore::mpi
