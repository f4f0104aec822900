// The steps of collective calls. In each step all ranks learn whether every rank has succeeded, so that all ranks throw
// the error of one.
//
//   agreement agree(comm, progress);
//   auto failure = attempt([&] { open_my_store(); });
//   agree.on(step::open, failure);                       // throws on all ranks if any failed
//
// Invariants:
//   A1 Every rank takes part in every step of a collective call, even if it has failed before.
//   A2 A step names the call and the place in it. Ranks that are at different steps all get errc::mpi, and the cluster
//      is broken (P3 of progress.hpp): no rank waits for a rank that took another path.
//   A3 A rank whose cluster is broken reports this in the step and does not wait: the others get errc::rank_failed.
//   A4 An exception that leaves a collective call is thrown by all ranks, or it breaks the cluster: all().
// Threads: one thread of a rank at a time.
// Cost: that of gather/ranks/agreement.hpp. A step allocates no memory, so a rank that has run out of memory can report
//   it.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <exception>
#include <string_view>
#include <utility>

#include "cluster/gather/ranks/agreement.hpp"
#include "cluster/gather/ranks/team.hpp"
#include "cluster/messages/progress.hpp"
#include "cluster/open/manifest.hpp"
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
  restore_expired,
  restore_asked,
  restore_stored,
  extract_entered,
  extract_read,
  query_asked,
  query_found,
  query_cleared,
  query_held,
  query_started,
  query_clock,
  query_aligned,
  query_changed,
  query_told,
  compact_asked,
  compact_begin_held,
  compact_begun,
  compact_begin_clock,
  compact_begin_aligned,
  compact_chosen,
  compact_expired,
  compact_agreed,
  compact_end_held,
  compact_ended,
  compact_end_clock,
  compact_end_aligned,
  compact_done,
  retention_asked,
  retention_set,
  retention_read,
  hold_asked,
  hold_found,
  hold_held,
  hold_made,
  hold_clock,
  hold_aligned,
  hold_released,
  forget_asked,
  forget_held,
  forget_made,
  forget_named,
  forget_clock,
  forget_aligned,
  expired_here,
  expired_told,
  expired_known,
  close_fenced,
  close_detached,
  close_done,
};

/// The call that a step belongs to.
[[nodiscard]] std::string_view call_of(std::int64_t step) noexcept;

using ranks::agreed;
using ranks::attempt;
using ranks::failure;

class agreement {
 public:
  agreement(MPI_Comm comm, progress& running);

  /// Waits until all ranks reach this step. If some failed, throws the error of the lowest of them.
  agreed on(step here, const std::exception_ptr& failure, std::int64_t number = 0);
  /// Throws the same error on all ranks. Precondition: every rank knows from an agreement that all ranks call this.
  [[noreturn]] void refuse(errc code, const std::string& why);
  /// Runs a collective call. An exception that only this rank throws breaks the cluster, because the others wait for
  /// this rank (A4).
  template <typename Call>
  auto all(Call&& call) {
    by_all_ = false;
    try {
      return std::forward<Call>(call)();
    } catch (...) {
      if (!by_all_) running_.fail(std::current_exception());
      throw;
    }
  }
  /// Records that all ranks throw the current exception, because they agreed on it in another way.
  void thrown_by_all() noexcept { by_all_ = true; }

  [[nodiscard]] const ranks::team& ranks() const noexcept { return ranks_; }
  /// Rank `from` sends `size` bytes to all ranks.
  void broadcast(void* bytes, int size, int from) { ranks_.bcast(bytes, size, from); }
  /// Every rank contributes `size` bytes; `all` has room for the bytes of all ranks.
  void gather(const void* mine, int size, void* all) { ranks_.allgather(mine, size, MPI_BYTE, all); }

 private:
  [[noreturn]] void throw_other_calls(const agreed& steps);

  progress& running_;
  ranks::team ranks_;
  bool by_all_ = false;
};

/// How a team of a cluster waits: it answers other ranks meanwhile.
[[nodiscard]] ranks::waiting waiting_in(progress& running);

/// Writes a cluster's manifest into the folder of every rank; the ranks may share one folder or have several
/// (collective).
void publish_manifest(agreement& agree, int rank, const std::filesystem::path& folder, const manifest& content);

}  // namespace icecore::mpi
