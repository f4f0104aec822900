// What a cluster is on one rank: its store, the way to the stores of the others, and the agreement with them.
//
// Collective calls (collective.cpp) stop the writers of every rank at the write gate, fence, and agree; then no write
// is under way anywhere, and what they do next (tick all clocks, sync, change the consistency) is one instant for all.
//
// Invariants:
//   C1 Between two collective calls the stores of all ranks have the same open version, clock_.
//   C2 A version below clock_ is closed on all ranks, and is the same cut everywhere.
//   C3 A tag's name is in rank 0's store only when all other ranks have closed its version (durably, where tags are).
#pragma once

#include <mpi.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/agreement.hpp"
#include "cluster/communicator.hpp"
#include "cluster/copy/checkpoints.hpp"
#include "cluster/messages/messenger.hpp"
#include "cluster/messages/progress.hpp"
#include "cluster/open/manifest.hpp"
#include "cluster/partitions/partition.hpp"
#include "cluster/partitions/read_cache.hpp"
#include "cluster/partitions/server.hpp"
#include "cluster/partitions/store_partition.hpp"
#include "cluster/read/extraction_channel.hpp"
#include "cluster/signals.hpp"
#include "cluster/write_gate.hpp"
#include "icecore/cluster.hpp"

namespace icecore::mpi {

/// The file that this rank's store is a copy of, in a cluster that is made of a checkpoint.
struct restored_part {
  std::filesystem::path file;
  std::string pool_id;
};

class [[gnu::visibility("hidden")]] cluster_core {
 public:
  cluster_core(MPI_Comm comm, std::filesystem::path path, const cluster_options& opening,
               const restored_part* restored = nullptr);
  ~cluster_core();
  cluster_core(const cluster_core&) = delete;
  cluster_core& operator=(const cluster_core&) = delete;

  void close();

  version write(const write_view& one);
  version insert_many(std::span<const item> items);
  version apply(const batch& operations);
  void define_update(int number, update_function change);
  std::string update(std::string_view key, int number, std::string_view input);

  [[nodiscard]] std::optional<std::string> find(std::string_view key, read_at at) const;
  bool visit(std::string_view key, const value_visitor& use) const;
  [[nodiscard]] bool contains(std::string_view key, read_at at) const;
  [[nodiscard]] found_values find_many(std::span<const std::string_view> keys, read_at at) const;
  [[nodiscard]] std::vector<past_value> history(std::string_view key) const;
  [[nodiscard]] std::vector<tag_info> tags(std::optional<std::string_view> name) const;
  [[nodiscard]] std::uint64_t count(version at) const;
  [[nodiscard]] extracted_pairs extract(version at, extraction_method method, const extraction_options& how) const;
  void stream(version at, const extraction_sink& sink, const extraction_options& how) const;
  [[nodiscard]] std::optional<std::string> find_by_broadcast(std::string_view key, version at, int root) const;
  /// errc::version_not_closed if it may still change; version_lost if a rank's power cut took it.
  void check_closed(version at) const;

  void fence(barrier_level level);
  void barrier(barrier_level level);
  version tag(const tag_options& label);
  void change(icecore::consistency mode);
  void change(icecore::protection allowed);
  [[nodiscard]] checkpoint_event checkpoint(const std::filesystem::path& folder);
  void signal_notify(int signum, std::span<const int> ranks);
  void signal_wait(int signum, std::span<const int> ranks);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int ranks() const noexcept { return ranks_; }
  [[nodiscard]] int owner_of(std::string_view key) const { return ownership_.owner_of(key, ranks_); }
  [[nodiscard]] bool ordered() const noexcept { return ownership_.ordered(); }
  /// Whether owner_of() is for whole keys alone: it is a function of the caller's.
  [[nodiscard]] bool owns_whole_keys() const noexcept { return ownership_.custom(); }
  [[nodiscard]] int group_of(int rank) const;
  [[nodiscard]] bool reaches_directly(int rank) const;
  // acquire: who learned of a version from a rank that returned from tag() finds it closed
  [[nodiscard]] version clock() const noexcept { return clock_.load(std::memory_order_acquire); }
  // relaxed: these change only in collective calls, which synchronise writers through the gate
  [[nodiscard]] icecore::consistency consistency() const noexcept {
    return consistency_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] icecore::protection allowed() const noexcept { return allowed_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool has_thread() const noexcept { return running_.has_thread(); }
  [[nodiscard]] const store& local() const noexcept { return *store_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] partition& of(int owner) const { return *partitions_[static_cast<std::size_t>(owner)]; }

 private:
  // ---- Opening (opening.cpp) ----
  struct found_manifest {
    std::optional<manifest> here;
    bool everywhere = false;
    bool anywhere = false;
  };
  void agree_on_arguments(const cluster_options& opening);
  /// That the ranks of a node have one folder.
  void check_folder();
  /// `restores`: a checkpoint may lie in the folder.
  [[nodiscard]] found_manifest agree_on_manifest(const options& opening, bool restores) const;
  void open_store(const options& opening, const found_manifest& found, const restored_part* part);
  void agree_on_pools(const found_manifest& found);
  void find_groups(int group_size);
  [[nodiscard]] bool shares_memory_with(int rank) const;
  [[nodiscard]] bool shares_memory() const;
  void attach(const options& opening);
  void connect(const cluster_options& opening);
  void agree_on_lost_versions();
  [[nodiscard]] partition* reach(int rank, std::size_t staging_bytes);

  // ---- Collective calls (collective.cpp) ----
  /// Makes all clocks the greatest of them. No write is under way anywhere.
  void align_clocks(step compared, step aligned, const std::exception_ptr& failure = nullptr);
  /// The same while what all ranks throw is under way; nothing if the cluster is broken.
  void align_after_failure(step compared, step aligned);
  void begin_collective() const;
  void barrier_of_all(barrier_level level);
  version tag_of_all(const tag_options& label);
  [[nodiscard]] checkpoint_event checkpoint_of_all(const std::filesystem::path& folder);
  /// The last use of MPI.
  void part() noexcept;
  void check_label(const tag_options& label) const;
  template <typename Apply>
  void change(std::int64_t wanted, Apply&& apply);

  // ---- Extraction (extraction.cpp) ----
  /// Agrees that all ranks ask for the same. Afterwards there is a channel_.
  void enter_extraction(const std::function<void()>& check_arguments, std::int64_t digest) const;
  template <typename Move>
  auto with_all(Move&& move) const;

  [[nodiscard]] auto waiting() const {
    return [this](auto&& done) { running_.wait(done); };
  }
  [[nodiscard]] write_gate::hold hold_writes() { return {gate_, waiting()}; }
  [[nodiscard]] partition& owner(std::string_view key) const { return of(owner_of(key)); }
  /// Whether what this rank finds there is kept: nobody may write, and it came by messages.
  [[nodiscard]] bool is_cached(int owner) const noexcept {
    return !reaches_directly(owner) && allowed() == icecore::protection::read_only;
  }
  [[nodiscard]] held_value hold_cached(std::string_view key, int owner) const;
  void begin_call() const;
  void check_writes() const;
  void check_finds() const;
  [[nodiscard]] bool staging() const noexcept;
  [[nodiscard]] bool run_background() const;
  void fence_all();
  void throw_refused() const;

  communicator comm_;
  const std::filesystem::path path_;
  const icecore::ownership ownership_;
  int rank_ = 0;
  int ranks_ = 0;
  std::vector<int> groups_;                       // by rank
  std::vector<int> nodes_;                        // by rank: the first rank there
  std::filesystem::path shared_as_;               // this rank's store, for its group; empty: it is not shared
  std::vector<std::unique_ptr<store>> attached_;  // by rank, until connect(); null: reached by messages
  std::vector<bool> direct_;                      // by rank

  std::atomic<version> clock_{0};
  version_ranges lost_;  // on any rank; from opening on it does not change
  std::atomic<icecore::consistency> consistency_;
  std::atomic<icecore::protection> allowed_{icecore::protection::read_write};
  mutable messenger messages_;
  signal_board signals_;
  mutable read_cache cache_;
  mutable write_gate gate_;
  std::optional<store> store_;
  std::unique_ptr<store_partition> own_;
  std::unique_ptr<server> server_;
  std::vector<std::unique_ptr<partition>> remote_;
  std::vector<partition*> partitions_;  // by rank: own_ or one of remote_
  mutable progress running_;
  std::unique_ptr<checkpoints> checkpoints_;
  mutable agreement agree_;
  mutable std::unique_ptr<extraction_channel> channel_;  // from the first extraction on
  bool closed_ = false;
  std::unique_ptr<finalize_hook> hook_;
};

}  // namespace icecore::mpi
