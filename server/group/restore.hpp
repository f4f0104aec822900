// Makes the data folder of a dependent group from snapshots: of a server that stands alone, of a group of any number of
// servers, or of all servers of an independent group.
//
//   const service::restore_notes notes = restore_group(MPI_COMM_WORLD, {.from = {...}, .to = "/var/lib/icecore"});
//
// The first server checks the snapshots and makes the folder; then every database's records are sent to their owners
// (cluster::restore). Versions, tags and histories stay as they were; of several independent servers as numbering.hpp
// says. Leases are left out, since a group keeps none; databases of the rule `write` get the rule `every`.
// Only the first server's catalog is made: at the start the others take theirs from it.
// The snapshots are in folders that all servers can read. The new folder is one that all share, or one on each node; it
// is made under another name and renamed when it is complete, the first server's last. So whatever is killed when, no
// start finds a part of it: without the first server's folder, a start begins with an empty catalog.
// Collective, and so are its errors: those of restore_snapshot() and cluster::restore(). Threads: one.
#pragma once

#include <mpi.h>

#include "service/snapshot/restoring.hpp"

namespace icecore::server::group {

/// What was not kept; at the first server alone. `what.place` counts for nothing.
service::restore_notes restore_group(MPI_Comm servers, const service::restore_request& what);

}  // namespace icecore::server::group
