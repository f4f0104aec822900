// A duplicate of the caller's communicator, and a function to call when MPI is finalised.
//
// Threads: one.
#pragma once

#include <mpi.h>

#include <functional>

namespace icecore::mpi {

class communicator {
 public:
  /// Collective. errc::mpi if MPI is not running, errc::invalid_argument if `original` is not a communicator of one
  /// group.
  explicit communicator(MPI_Comm original);
  /// The same, but waits by calling `wait`.
  communicator(MPI_Comm original, const std::function<void(const std::function<bool()>& done)>& wait);
  /// Frees the duplicate (collective), unless it was abandoned or MPI has ended.
  ~communicator();
  communicator(const communicator&) = delete;
  communicator& operator=(const communicator&) = delete;

  [[nodiscard]] MPI_Comm get() const noexcept { return comm_; }
  /// Makes the destructor keep the duplicate, because the other ranks may not free it too.
  void abandon() noexcept { abandoned_ = true; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  bool abandoned_ = false;
};

/// Calls a function when MPI is finalised, while MPI still works, unless this object is destroyed before.
class finalize_hook {
 public:
  explicit finalize_hook(std::function<void()> at_finalize);
  ~finalize_hook();
  finalize_hook(const finalize_hook&) = delete;
  finalize_hook& operator=(const finalize_hook&) = delete;

 private:
  static int run(MPI_Comm comm, int key, void* self, void* extra);

  std::function<void()> at_finalize_;
  int key_ = MPI_KEYVAL_INVALID;
};

/// Whether MPI can be called.
[[nodiscard]] bool mpi_runs() noexcept;
/// Whether several threads may call it at once.
[[nodiscard]] bool has_full_threads();

}  // namespace icecore::mpi
