// The right to use a data folder: one process at a time has it.
//
//   const data_lock lock("/var/lib/icecore");       // throws errc::locked, which names the other process
//
// The lock is an open-file-description lock on the file `server.lock` of the folder, in which the process writes its
// number. The kernel gives the lock back when the process ends, however it ends, so a number that a dead process left
// there does not count; and nothing is removed, so no second process can lock a file that has no name any more.
// A child process that fork() made shares the lock until it ends or calls exec.
//
// Errors: errc::locked; errc::io if the folder cannot be made or its file cannot be written.
// Threads: construct it in one; holding it needs none. Cost: a few system calls; up to a second if another process has
// the lock and has not written its number yet.
#pragma once

#include <filesystem>

namespace icecore::server {

class data_lock {
 public:
  /// Makes the folder (for its owner alone) if it is not there.
  explicit data_lock(const std::filesystem::path& folder);
  data_lock(const data_lock&) = delete;
  data_lock& operator=(const data_lock&) = delete;
  ~data_lock();

 private:
  int descriptor_ = -1;
};

}  // namespace icecore::server
