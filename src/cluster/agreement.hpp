// Collective steps: all ranks learn whether all of them got so far, so that an error of one is thrown by all.
//
//   agreement agree(comm, progress);
//   auto failure = attempt([&] { open_my_store(); });
//   agree.on(step::open, failure);                       // throws on all ranks if any failed
//
// Invariants:
//   A1 Every rank takes part in every step of a collective call, whatever happened to it before.
//   A2 A step tells which call and place it belongs to. Ranks at different steps all get errc::mpi, and the cluster is
//      broken (P3 of progress.hpp): nobody waits for a rank that went another way.
// Threads: one thread of a rank at a time.
// Cost: one reduction of five numbers; a broadcast more if a rank failed.
#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <exception>
#include <string_view>
#include <utility>

#include "cluster/manifest.hpp"
#include "cluster/progress.hpp"
#include "icecore/error.hpp"

namespace icecore::mpi {

/// The steps of all collective calls, in their order.
enum class step : std::int64_t {
  open_arguments = 1,
  open_folder,
  open_manifest,
  open_store,
  open_pools,
  open_written,
  open_seen,
  open_attached,
  open_clock,
  open_aligned,
  open_lost,
  barrier_fenced,
  barrier_held,
  barrier_synced,
  barrier_clock,
  barrier_aligned,
  tag_entered,
  tag_held,
  tag_others,
  tag_named,
  tag_clock,
  tag_aligned,
  change_held,
  change_made,
  checkpoint_asked,
  checkpoint_held,
  checkpoint_cut,
  checkpoint_clock,
  checkpoint_aligned,
  restore_read,
  restore_cleared,
  restore_round,
  restore_ready,
  restore_clock,
  restore_stored,
  extract_entered,
  extract_read,
  close_fenced,
  close_detached,
  close_done,
};

/// The call that a step belongs to.
[[nodiscard]] std::string_view call_of(std::int64_t step) noexcept;

/// What the ranks' numbers were between.
struct agreed {
  std::int64_t least;
  std::int64_t greatest;
};

/// Runs `work` and returns what it threw.
template <typename Work>
[[nodiscard]] std::exception_ptr attempt(Work&& work) {
  try {
    std::forward<Work>(work)();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

class agreement {
 public:
  agreement(MPI_Comm comm, progress& running);

  /// Waits for all ranks to come to this step. If some failed, throws the error of the first of them.
  agreed on(step here, const std::exception_ptr& failure, std::int64_t number = 0);

  /// Rank `from` gives `size` bytes to all.
  void broadcast(void* bytes, int size, int from);
  /// Every rank gives `size` bytes; `all` has room for those of all ranks.
  void gather(const void* mine, int size, void* all);

 private:
  [[noreturn]] void throw_failure(int failed, const std::exception_ptr& mine);
  void finish(MPI_Request& request);

  MPI_Comm comm_;
  progress& running_;
  // members, so that a reduction that nobody waits for any more writes to nothing else
  std::array<std::int64_t, 5> mine_{};
  std::array<std::int64_t, 5> least_{};
  int rank_ = 0;
  int ranks_ = 0;
};

/// Writes a cluster's manifest into the folder of every rank, which may be one or several (collective).
void publish_manifest(agreement& agree, int rank, const std::filesystem::path& folder, const manifest& content);

}  // namespace icecore::mpi
