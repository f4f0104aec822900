#include "cluster_session.hpp"

#include <utility>

namespace icecore::python {

cluster_session::cluster_session(icecore::cluster opened)
    : cluster_(std::make_unique<icecore::cluster>(std::move(opened))),
      path_(cluster_->path().native()),
      fork_generation_(fork_generation()) {}

cluster_session::~cluster_session() {
  if (!cluster_) return;
  if (forked()) {
    static_cast<void>(cluster_.release());  // the cluster and its MPI belong to the parent (K2)
    return;
  }
  const without_gil released(*this);  // closing waits for other ranks
  cluster_.reset();
}

void cluster_session::refuse() const {
  if (forked()) {
    throw error(errc::forked, path_ +
                                  ": the cluster was opened before this process was forked; a child of a rank takes no "
                                  "part in MPI and cannot use it");
  }
  throw error(errc::closed, path_ + ": the cluster is closed; open it again with icecore.mpi.Cluster()");
}

void cluster_session::close() {
  if (closed_) return;
  if (forked()) {
    closed_ = true;  // the parent closes it; the child only stops using it
    return;
  }
  require_outside(
      "close() was called from inside another call of a store or cluster (an ownership function, the "
      "sink of a stream); close it after that call has returned");
  closed_ = true;
  wait_until_none();
  const without_gil released(*this);
  const std::unique_ptr<icecore::cluster> last = std::move(cluster_);
  last->close();
}

}  // namespace icecore::python
