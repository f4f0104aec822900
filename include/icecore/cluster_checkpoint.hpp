// Checkpoints of a cluster: all versions and tags of one instant, written to a folder while writes go on.
//
//   icecore::checkpoint_event writing = c.checkpoint("/scratch/weather");   // collective; returns at once
//   ... c.insert(...) ...                                                   // not in it
//   writing.wait();                                                         // complete and on its device, on all ranks
//
//   auto c = icecore::cluster::restore(MPI_COMM_WORLD, {"/scratch/weather"}, "/dev/shm/weather");
//
// The folder, which all ranks share, gets one file from each rank and, when all of these are complete, a file
// `checkpoint` that names them: without it there is no checkpoint. A second checkpoint in the same folder replaces the
// first at that instant and not before.
// Threads: an event is a value; any number of threads may use it if any number may use the cluster.
// Errors: if a rank could not write its file (errc::no_space, permission, io), wait() throws the error on all ranks,
//   with that rank's number in front; if no thread waits, the cluster's close() throws it. The folder then holds what
//   it held before.
// Source: PapyrusKV, SC 2017, section 4.2.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "icecore/options.hpp"

namespace [[gnu::visibility("default")]] icecore {

namespace mpi {
class running_checkpoint;
}  // namespace mpi

class checkpoint_event {
 public:
  /// An event of nothing, which is done.
  checkpoint_event() = default;
  explicit checkpoint_event(std::shared_ptr<mpi::running_checkpoint> of) noexcept : of_(std::move(of)) {}

  /// Whether wait() would return, or throw, at once.
  [[nodiscard]] bool done() const;
  /// Returns when the checkpoint is complete on all ranks, or throws the error; not collective. If MPI has one thread
  /// only, the other ranks must be in calls of the cluster meanwhile.
  void wait() const;
  /// How much of its file this rank has written, in bytes.
  [[nodiscard]] icecore::progress progress() const;

 private:
  std::shared_ptr<mpi::running_checkpoint> of_;
};

/// What to restore.
struct checkpoint_source {
  std::filesystem::path folder{};  ///< the argument of cluster::checkpoint(); all ranks can read it
  /// Send every record to its owner even if ranks and ownership are those of the checkpoint.
  bool redistribute = false;
  /// Closed stores in place of a checkpoint, in the same order on all ranks, which can read them all: such as the files
  /// that checkpoint::write() made of each rank's store. All records of a key must be in one of them, and a tag's name
  /// too; a version is what it was in all of them together. `folder` then counts for nothing.
  std::vector<std::filesystem::path> stores{};
};

}  // namespace icecore
