// The ranks of a communicator, and how this rank waits for the others: blocked in MPI, or by polling with other work in
// between, as ranks of a cluster do, which answer requests meanwhile.
//
//   team all(comm);                                          // blocks in MPI
//   team all(comm, {.until = answer_others_until, .beside = work_and_answer_others});
//   all.allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM);
//   all.work([&] { merge(); });
//
// Threads: by one thread of a rank at a time. Collective functions must be called by all ranks of the communicator.
// Errors: errc::mpi if MPI reports one (on communicators whose error handler returns; the default one ends the
//   program); any exception of `until`. The operation that was under way is then abandoned and the communicator must
//   not be used again: MPI may still read and write its memory, which is kept until the process ends.
// Interfaces: MPI 3, because each collective call needs its non-blocking form.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <exception>
#include <functional>
#include <span>

#include "cluster/gather/ranks/request_memory.hpp"

namespace icecore::ranks {

/// Throws errc::mpi unless `result` is MPI_SUCCESS.
void check_mpi(int result, const char* call);

/// How a rank waits that must not block in MPI.
struct waiting {
  /// Returns when `done` returns true; throws when waiting has become useless.
  std::function<void(const std::function<bool()>& done)> until{};
  /// Does long local work while it also does what `until` does besides waiting. Throws what the work throws.
  std::function<void(const std::function<void()>& work)> beside{};
  /// Called when this rank cannot do what the others wait for: before the exception is thrown, and so before any
  /// destructor can wait for the others.
  std::function<void(const std::exception_ptr& why)> failed{};
};

class team {
 public:
  /// Blocks in MPI. Converts implicitly, so that a communicator can be passed as a team.
  team(MPI_Comm comm);
  /// Waits as `how` says. Precondition: all its functions are set.
  team(MPI_Comm comm, waiting how);
  team(const team&) = delete;
  team& operator=(const team&) = delete;

  [[nodiscard]] MPI_Comm comm() const noexcept { return comm_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }

  // ---- Collective: arguments as those of the MPI function of this name ----------------------------------------------

  void allreduce(const void* mine, void* all, int count, MPI_Datatype type, MPI_Op op) const;
  /// Contributes and does not wait for the result: the last call of this rank. Does nothing if a call was given up
  /// before, because this call would not match any call of the others.
  void begin_allreduce(const void* mine, int count, MPI_Datatype type, MPI_Op op) const;
  void bcast(void* bytes, int count, int root) const;
  void gather(const void* mine, int count, MPI_Datatype type, void* all, int root) const;
  void gatherv(const void* mine, int count, MPI_Datatype type, void* all, const int* counts, const int* begins,
               int root) const;
  void allgather(const void* mine, int count, MPI_Datatype type, void* all) const;
  void allgatherv(const void* mine, int count, MPI_Datatype type, void* all, std::span<const int> counts,
                  std::span<const int> begins) const;
  void alltoall(const void* to, int count, MPI_Datatype type, void* from) const;

  // ---- This rank alone ----------------------------------------------------------------------------------------------

  /// Sends one number to another rank, or receives one from it.
  void send(int number, int to_rank, int tag) const;
  [[nodiscard]] int receive(int from_rank, int tag) const;
  /// Waits until all are done. Each is MPI_REQUEST_NULL afterwards.
  void wait(std::span<MPI_Request> requests) const;
  /// Does local work that sends no messages and may take long.
  void work(const std::function<void()>& local_work) const;
  /// Records that a collective call outside this class was given up.
  void gave_up() const noexcept { in_step_ = false; }
  /// Whether the last agreement (agreement.hpp) was that some rank failed.
  [[nodiscard]] bool failed_together() const noexcept { return failed_together_; }
  void set_failed_together(bool failed) const noexcept { failed_together_ = failed; }
  /// check_mpi(), and reports a failure to the ranks that wait for this one.
  void check(int result, const char* call) const;

 private:
  static constexpr std::size_t kept_size = 4096;

  template <class Begin>
  void finish(const char* name, std::span<request_memory*> used, Begin begin) const;
  template <class Begin>
  void in_own_memory(const char* name, const void* mine, std::size_t given, void* all, std::size_t taken,
                     Begin begin) const;
  [[nodiscard]] request_memory taken_memory(std::size_t size) const;
  [[nodiscard]] static std::size_t bytes_of(int count, MPI_Datatype type);
  /// Returns the result of `work`; if it throws, reports this to the others first.
  template <class Work>
  auto guarded(Work work) const {
    try {
      return work();
    } catch (...) {
      if (how_.failed) how_.failed(std::current_exception());
      throw;
    }
  }

  MPI_Comm comm_;
  waiting how_;
  mutable std::array<request_memory, 2> kept_;  // for small calls, so that an agreement allocates no memory
  int rank_ = 0;
  int size_ = 0;
  mutable bool failed_together_ = false;
  mutable bool in_step_ = true;  // no collective call was given up
};

}  // namespace icecore::ranks
