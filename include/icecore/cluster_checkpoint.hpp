// Checkpoints of a cluster: all versions and tags of one instant, written to a folder while writes go on.
//
//   icecore::checkpoint_event writing = c.checkpoint("/scratch/weather");   // collective; returns at once
//   ... c.insert(...) ...                                                   // not in it
//   writing.wait();                                                         // whole and on its device, on all ranks
//
//   auto c = icecore::cluster::restore(MPI_COMM_WORLD, {"/scratch/weather"}, "/dev/shm/weather");
//
// The folder, which all ranks share, gets one file of each rank and, when all of these are whole, a file `checkpoint`
// that names them: without it there is no checkpoint. A second checkpoint in the same folder replaces the first at that
// instant and not before.
// Threads: an event is a value, for any number of threads if the cluster is.
// Errors: what a rank could not write (errc::no_space, permission, io) is thrown by wait() on all ranks with that
//   rank's number in front, or if nobody waits by the cluster's close(); the folder then holds what it held before.
// Source: PapyrusKV, SC 2017, section 4.2.
#pragma once

#include <filesystem>
#include <memory>

#include "icecore/options.hpp"

namespace [[gnu::visibility("default")]] icecore {

namespace mpi {
class running_checkpoint;
}  // namespace mpi

class checkpoint_event {
 public:
  /// Of nothing: done.
  checkpoint_event() = default;
  explicit checkpoint_event(std::shared_ptr<mpi::running_checkpoint> of) noexcept : of_(std::move(of)) {}

  /// Whether wait() would return, or throw, at once.
  [[nodiscard]] bool done() const;
  /// Returns when the checkpoint is complete on all ranks; not collective. Throws why it is not. Where MPI has one
  /// thread only, other ranks must be in calls of the cluster meanwhile.
  void wait() const;
  /// What this rank has written of its file, in bytes.
  [[nodiscard]] icecore::progress progress() const;

 private:
  std::shared_ptr<mpi::running_checkpoint> of_;
};

/// What to restore.
struct checkpoint_source {
  std::filesystem::path folder{};  ///< what cluster::checkpoint() was told; all ranks can read it
  /// Bring every record to its owner anew also where ranks and ownership are those of the checkpoint.
  bool redistribute = false;
};

}  // namespace icecore
