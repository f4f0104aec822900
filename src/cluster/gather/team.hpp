// The ranks of a communicator, and how this one waits for the others: inside MPI, or looking again and again and doing
// something else meanwhile, as ranks of a cluster do, who answer requests.
//
//   team all(comm);                                          // waits inside MPI
//   team all(comm, {.until = answer_others_until, .beside = work_and_answer_others});
//   all.allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM);
//   all.work([&] { merge(); });
//
// Threads: by one thread of a rank at a time. Collective functions must be called by all ranks of the communicator.
// Errors: errc::mpi if MPI reports one (communicators whose error handler returns; the default one ends the program);
//   whatever `until` throws. What was under way then is given up: of receives nothing is written any more, but a
//   collective call cannot be taken back, so the communicator is of no use.
// Interfaces: MPI 3: each collective call has a form that does not block.
#pragma once

#include <mpi.h>

#include <functional>
#include <span>

namespace icecore::ranks {

/// Throws errc::mpi unless `result` is MPI_SUCCESS.
void check_mpi(int result, const char* call);

/// How a rank waits that must not block in MPI.
struct waiting {
  /// Returns when `done` returns true, or throws when nobody can wait any more.
  std::function<void(const std::function<bool()>& done)> until{};
  /// Does long local work, and meanwhile whatever `until` does besides waiting. Throws what the work throws.
  std::function<void(const std::function<void()>& work)> beside{};
};

class team {
 public:
  /// Waits inside MPI. Whoever has a communicator has a team, so this converts.
  team(MPI_Comm comm);
  /// Waits as `how` says. Precondition: both functions are there.
  team(MPI_Comm comm, waiting how);

  [[nodiscard]] MPI_Comm comm() const noexcept { return comm_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }

  // ---- Collective: arguments as those of the MPI function of this name ---------------------------------------------

  void allreduce(const void* mine, void* all, int count, MPI_Datatype type, MPI_Op op) const;
  void bcast(void* bytes, int count, int root) const;
  void gather(const void* mine, int count, MPI_Datatype type, void* all, int root) const;
  void gatherv(const void* mine, int count, MPI_Datatype type, void* all, const int* counts, const int* begins,
               int root) const;
  void allgather(const void* mine, int count, MPI_Datatype type, void* all) const;
  void allgatherv(const void* mine, int count, MPI_Datatype type, void* all, const int* counts,
                  const int* begins) const;
  void alltoall(const void* to, int count, MPI_Datatype type, void* from) const;

  // ---- This rank alone ---------------------------------------------------------------------------------------------

  /// One number to another rank, or from it.
  void send(int number, int to_rank, int tag) const;
  [[nodiscard]] int receive(int from_rank, int tag) const;
  /// Until all are done. Each is MPI_REQUEST_NULL afterwards.
  void wait(std::span<MPI_Request> requests) const;
  /// Does work without messages that may take long.
  void work(const std::function<void()>& local_work) const;

 private:
  template <class Blocking, class Begun>
  void call(const char* name, Blocking blocking, Begun begun) const;

  MPI_Comm comm_;
  waiting how_;
  int rank_ = 0;
  int size_ = 0;
};

}  // namespace icecore::ranks
