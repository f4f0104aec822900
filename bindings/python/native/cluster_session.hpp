// One open cluster in Python: who may use it now, and when it is released.
//
// The Python objects made from one icecore.mpi.Cluster share a session: the cluster, its snapshots, iterators and
// checkpoints.
//
// Invariants:
//   K1. The cluster is closed or destroyed only when no call is running without the GIL (calls.hpp).
//   K2. After close() or a fork every use() throws. A forked child never closes what its parent has open.
//   K3. Members change only while the GIL is held.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "calls.hpp"
#include "icecore/cluster.hpp"

namespace icecore::python {

class cluster_session : public running_calls {
 public:
  explicit cluster_session(icecore::cluster opened);
  /// Closes the cluster if it is open and ignores errors; collective, like the cluster's destructor.
  ~cluster_session();
  cluster_session(const cluster_session&) = delete;
  cluster_session& operator=(const cluster_session&) = delete;

  /// The cluster, for use while the GIL is held or inside `without_gil`. errc::closed, errc::forked.
  icecore::cluster& use() {
    if (closed_ || forked()) refuse();
    return *cluster_;
  }

  /// Refuses all further use, waits for the calls that run in other threads, then closes the cluster (collective).
  /// Closing twice does nothing.
  void close();

  /// errc::forked in a child of the process that opened the cluster.
  void require_own_process() const {
    if (forked()) refuse();
  }

  [[nodiscard]] bool closed() const noexcept { return closed_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  [[noreturn]] void refuse() const;
  [[nodiscard]] bool forked() const noexcept { return fork_generation_ != fork_generation(); }

  std::unique_ptr<icecore::cluster> cluster_;
  std::string path_;
  std::uint64_t fork_generation_;
  bool closed_ = false;
};

}  // namespace icecore::python
