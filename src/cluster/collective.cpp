// Calls that all ranks make together. Each call is a fixed sequence of steps (A1 of agreement.hpp).
#include <fmt/format.h>

#include <utility>

#include "cluster/cluster_core.hpp"

namespace icecore::mpi {

void cluster_core::align_clocks(step compared, step aligned, const std::exception_ptr& failure) {
  const version greatest =
      static_cast<version>(agree_.on(compared, failure, static_cast<std::int64_t>(store_->clock())).greatest);
  const auto skipped = attempt([&] {
    if (!store_->read_only()) store_->skip_to(greatest);
  });
  clock_.store(greatest, std::memory_order_release);  // see clock()
  agree_.on(aligned, skipped);
}

void cluster_core::align_after_failure(step compared, step aligned) {
  if (running_.broken()) return;
  align_clocks(compared, aligned);
  agree_.thrown_by_all();
}

void cluster_core::begin_collective() const {
  if (closed_) throw error(errc::closed, "the cluster is closed");
  running_.step_now_and_then();  // if the cluster is broken, the first step reports it to all
}

void cluster_core::barrier(barrier_level level) {
  begin_collective();
  agree_.all([&] { barrier_of_all(level); });
}

void cluster_core::barrier_of_all(barrier_level level) {
  const agreed levels =
      agree_.on(step::barrier_fenced, attempt([&] { fence_all(); }), static_cast<std::int64_t>(level));
  if (levels.least != levels.greatest) {
    agree_.refuse(errc::invalid_argument, "some ranks called barrier at memory level and others at storage level");
  }
  if (level == barrier_level::memory) return;

  // syncing may close the open version: that must be one instant for all ranks (C2)
  const write_gate::hold held = hold_writes();
  agree_.on(step::barrier_held, attempt([&] { fence_all(); }));
  const auto failure = attempt([&] {
    if (!store_->read_only()) store_->sync();
  });
  try {
    agree_.on(step::barrier_synced, failure);
  } catch (...) {
    align_after_failure(step::barrier_clock, step::barrier_aligned);
    throw;
  }
  align_clocks(step::barrier_clock, step::barrier_aligned);
}

void cluster_core::check_label(const tag_options& label) const {
  constexpr std::size_t text_size_max = 65'535;
  if (label.name.size() > text_size_max || label.note.size() > text_size_max) {
    throw error(errc::invalid_argument, fmt::format("a tag's name of {} and note of {} bytes: each has at most {}",
                                                    label.name.size(), label.note.size(), text_size_max));
  }
  if (label.name.empty() || !store_->find_tag(label.name)) return;
  throw error(errc::tag_exists, fmt::format("a tag named '{}' exists already", label.name));
}

version cluster_core::tag(const tag_options& label) {
  begin_collective();
  return agree_.all([&] { return tag_of_all(label); });
}

version cluster_core::tag_of_all(const tag_options& label) {
  agree_.on(step::tag_entered, attempt([&] {
              if (rank_ == 0) check_label(label);
            }));
  const write_gate::hold held = hold_writes();
  return tag_held(label);
}

version cluster_core::tag_held(const tag_options& label) {
  const auto fenced = attempt([&] { fence_all(); });
  const version closed =
      static_cast<version>(agree_.on(step::tag_held, fenced, static_cast<std::int64_t>(store_->clock())).greatest);

  // No write is under way on any rank. Rank 0, the only rank that stores the label, closes its version last (C3).
  const auto close_version = [&](const tag_options* kept) {
    store_->skip_to(closed);
    kept != nullptr ? store_->tag(*kept) : store_->tag();
  };
  const bool labelled = !label.name.empty() || !label.note.empty() || label.time_ns;
  try {
    agree_.on(step::tag_others, attempt([&] {
                if (rank_ != 0) close_version(nullptr);
              }));
    clock_.store(closed + 1, std::memory_order_release);  // see clock()
    agree_.on(step::tag_named, attempt([&] {
                if (rank_ == 0) close_version(labelled ? &label : nullptr);
              }));
  } catch (...) {  // some clocks may now be ahead of others
    align_after_failure(step::tag_clock, step::tag_aligned);
    throw;
  }
  return closed;
}

template <typename Apply>
void cluster_core::change(std::int64_t wanted, Apply&& apply) {
  begin_collective();
  agree_.all([&] {
    const write_gate::hold held = hold_writes();
    const agreed same = agree_.on(step::change_held, attempt([&] { fence_all(); }), wanted);
    if (same.least != same.greatest) {
      agree_.refuse(errc::invalid_argument,
                    "the ranks ask for different consistencies or protections; all must ask for the same one");
    }
    apply();
    // a rank that continues may write; by then no rank may still read from a cache
    agree_.on(step::change_made, nullptr);
  });
}

void cluster_core::change(icecore::consistency mode) {
  constexpr std::int64_t of_consistency = 0;
  change(of_consistency + static_cast<std::int64_t>(mode), [&] {
    consistency_.store(mode, std::memory_order_relaxed);  // see consistency()
  });
}

void cluster_core::change(icecore::protection allowed) {
  constexpr std::int64_t of_protection = 256;
  change(of_protection + static_cast<std::int64_t>(allowed), [&] {
    allowed_.store(allowed, std::memory_order_relaxed);  // see allowed()
    cache_.clear();
  });
}

checkpoint_event cluster_core::checkpoint(const std::filesystem::path& folder) {
  begin_collective();
  return agree_.all([&] { return checkpoint_of_all(folder); });
}

checkpoint_event cluster_core::checkpoint_of_all(const std::filesystem::path& folder) {
  std::filesystem::path target;
  manifest content;
  const auto prepared = attempt([&] {
    make_folder(folder);
    target = std::filesystem::canonical(folder);                        // gives a folder one name
    static_cast<void>(read_manifest(target, manifest_of::checkpoint));  // throws if another kind of file has this name
    auto mine = read_manifest(path_);
    if (!mine) {
      throw error(errc::other_cluster,
                  fmt::format("{}: the cluster's manifest is missing; put it back, then make the checkpoint again",
                              path_.native()));
    }
    content = std::move(*mine);
    content.id = random_id();
  });
  const auto where = static_cast<std::int64_t>(std::hash<std::string>{}(target.native()) >> 1);
  const agreed same = agree_.on(step::checkpoint_asked, prepared, where);
  if (same.least != same.greatest) {
    agree_.refuse(errc::invalid_argument,
                  "the ranks give different folders for one checkpoint; all must give the same one");
  }
  agree_.broadcast(content.id.data(), static_cast<int>(content.id.size()), 0);
  checkpoints_->wait_for(target);

  const write_gate::hold held = hold_writes();
  std::shared_ptr<running_checkpoint> begun;
  const auto never_mind = [&] {
    if (!begun) return;
    begun->abandon();
    begun->forget();  // this call throws the failure
  };
  try {
    agree_.on(step::checkpoint_held, attempt([&] {
                fence_all();
                begun = checkpoints_->add(target, content);
                if (rank_ == 0) begun->hold(std::make_unique<folder_lock>(target));
              }));
  } catch (...) {
    never_mind();
    throw;
  }
  std::optional<icecore::checkpoint> cut;
  const auto failure = attempt([&] { cut = store_->checkpoint(); });
  try {
    agree_.on(step::checkpoint_cut, failure);
  } catch (...) {
    never_mind();
    align_after_failure(step::checkpoint_clock, step::checkpoint_aligned);
    throw;
  }
  begun->start(*cut);
  align_clocks(step::checkpoint_clock, step::checkpoint_aligned);
  return checkpoint_event(begun);
}

void cluster_core::close() {
  if (std::exchange(closed_, true) || !store_) return;
  if (!mpi_runs()) running_.fail_everywhere({errc::mpi, "MPI is finalised"});
  for (const auto& each : remote_) each->finish_ahead();
  std::exception_ptr failure;
  if (!running_.broken()) failure = attempt([&] { fence_all(); });
  if (const auto unfinished = attempt([&] { checkpoints_->finish(); }); unfinished && !failure) failure = unfinished;
  auto parted = attempt([&] { agree_.on(step::close_fenced, nullptr); });
  running_.stop_thread();  // no request can arrive any more: all ranks are here, and none has an open request
  if (own_) own_->detach();
  for (const auto& each : remote_) each->detach();
  // until this step other ranks may have this rank's store attached
  if (!parted) parted = attempt([&] { agree_.on(step::close_detached, nullptr); });
  if (const auto closing = attempt([&] { store_->close(); }); closing && !failure) failure = closing;
  if (!parted) {
    failure = attempt([&] {
      running_.wait([&] { return messages_.finish_sends(); });
      agree_.on(step::close_done, failure);
    });
  }
  part();
  hook_.reset();
  if (parted) std::rethrow_exception(parted);
  if (failure) std::rethrow_exception(failure);
}

void cluster_core::part() noexcept {
  if (running_.broken()) {
    running_.end_telling();
    comm_.abandon();
    if (channel_) channel_->abandon();
  }
  messages_.stop();
}

}  // namespace icecore::mpi
