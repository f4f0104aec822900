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
//   whatever `until` throws. What was under way then is given up, and the communicator is of no use: MPI may still read
//   and write the memory, which stays for as long as the process.
// Interfaces: MPI 3: each collective call has a form that does not block.
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
  /// Returns when `done` returns true, or throws when nobody can wait any more.
  std::function<void(const std::function<bool()>& done)> until{};
  /// Does long local work, and meanwhile whatever `until` does besides waiting. Throws what the work throws.
  std::function<void(const std::function<void()>& work)> beside{};
  /// This rank cannot do what the others wait for. Called before the exception is thrown, so before anything that it
  /// leaves waits for them.
  std::function<void(const std::exception_ptr& why)> failed{};
};

class team {
 public:
  /// Waits inside MPI. Whoever has a communicator has a team, so this converts.
  team(MPI_Comm comm);
  /// Waits as `how` says. Precondition: all its functions are there.
  team(MPI_Comm comm, waiting how);
  team(const team&) = delete;
  team& operator=(const team&) = delete;

  [[nodiscard]] MPI_Comm comm() const noexcept { return comm_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }

  // ---- Collective: arguments as those of the MPI function of this name ---------------------------------------------

  void allreduce(const void* mine, void* all, int count, MPI_Datatype type, MPI_Op op) const;
  /// Takes part and does not wait for what becomes of it: the last call of this rank. Nothing if one was given up
  /// before, since no call of the others would fit to this one.
  void begin_allreduce(const void* mine, int count, MPI_Datatype type, MPI_Op op) const;
  void bcast(void* bytes, int count, int root) const;
  void gather(const void* mine, int count, MPI_Datatype type, void* all, int root) const;
  void gatherv(const void* mine, int count, MPI_Datatype type, void* all, const int* counts, const int* begins,
               int root) const;
  void allgather(const void* mine, int count, MPI_Datatype type, void* all) const;
  void allgatherv(const void* mine, int count, MPI_Datatype type, void* all, std::span<const int> counts,
                  std::span<const int> begins) const;
  void alltoall(const void* to, int count, MPI_Datatype type, void* from) const;

  // ---- This rank alone ---------------------------------------------------------------------------------------------

  /// One number to another rank, or from it.
  void send(int number, int to_rank, int tag) const;
  [[nodiscard]] int receive(int from_rank, int tag) const;
  /// Until all are done. Each is MPI_REQUEST_NULL afterwards.
  void wait(std::span<MPI_Request> requests) const;
  /// Does work without messages that may take long.
  void work(const std::function<void()>& local_work) const;
  /// A collective call that is not one of these was given up.
  void gave_up() const noexcept { in_step_ = false; }
  /// Whether the last thing that all agreed on (agreement.hpp) was that one of them failed.
  [[nodiscard]] bool failed_together() const noexcept { return failed_together_; }
  void set_failed_together(bool failed) const noexcept { failed_together_ = failed; }
  /// check_mpi(), and whoever waits for this rank is told of the failure.
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
  /// Returns what `work` does, or has the others told why it throws.
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
  mutable std::array<request_memory, 2> kept_;  // of small calls, so that agreeing takes no memory
  int rank_ = 0;
  int size_ = 0;
  mutable bool failed_together_ = false;
  mutable bool in_step_ = true;  // has given no collective call up
};

}  // namespace icecore::ranks
