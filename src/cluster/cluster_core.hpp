// What a cluster is on one rank: its store, access to the stores of the other ranks, and the agreement with them.
//
// Collective calls (collective.cpp) stop the writers of every rank at the write gate, fence, and agree. After that no
// write is under way on any rank, so their next action (advance all clocks, sync, change the consistency) happens at
// one instant for all ranks.
//
// Invariants:
//   C1 Between two collective calls the stores of all ranks have the same open version, clock_.
//   C2 A version below clock_ is closed on all ranks, and it is the same cut everywhere.
//   C3 Rank 0's store gets a tag's name only after all other ranks have closed the tag's version (durably, if tags are
//      durable).
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
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
#include "cluster/upkeep/expired_versions.hpp"
#include "cluster/write_gate.hpp"
#include "icecore/cluster.hpp"
#include "icecore/cluster_query.hpp"

namespace icecore::mpi {

/// The file of which this rank's store is a copy, in a cluster that is restored from a checkpoint.
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
  std::optional<version> apply_if(const batch& operations);
  void define_update(int number, update_function change);
  std::string update(std::string_view key, int number, std::string_view input);
  version insert_in_turn(std::string_view key, std::string_view value);

  [[nodiscard]] std::optional<std::string> find(std::string_view key, read_at at) const;
  bool visit(std::string_view key, const value_visitor& use) const;
  [[nodiscard]] bool contains(std::string_view key, read_at at) const;
  [[nodiscard]] found_values find_many(std::span<const std::string_view> keys, read_at at) const;
  [[nodiscard]] std::vector<versioned_value> history(std::string_view key) const;
  [[nodiscard]] std::vector<tag_info> tags(std::optional<std::string_view> name) const;
  [[nodiscard]] std::uint64_t count(version at) const;
  [[nodiscard]] std::uint64_t count(version at, const filter& condition) const;
  [[nodiscard]] cluster_page page(version at, const filter& condition, const page_limits& limits,
                                  std::string_view token) const;
  [[nodiscard]] extracted_pairs extract(version at, extraction_method method, const extraction_options& how) const;
  void stream(version at, const extraction_sink& sink, const extraction_options& how) const;
  [[nodiscard]] std::optional<std::string> find_by_broadcast(std::string_view key, version at, int root) const;
  /// errc::version_not_closed if `at` may still change; version_lost if a power cut took it on any rank;
  /// version_expired if a compaction gave it up on any rank.
  void check_closed(version at) const;

  // Feeds (query/feed_merge.cpp)
  /// The newest version that is closed on all ranks and lost on none. Throws if the cluster cannot be used any more.
  [[nodiscard]] version newest_readable() const;
  /// The greatest version up to `v` that is lost on no rank.
  [[nodiscard]] version newest_not_lost(version v) const noexcept;
  [[nodiscard]] bool is_lost(version v) const noexcept { return lost_.contains(v); }
  /// Answers other ranks until a version after this one is closed, or until then.
  void wait_for_version(version seen, std::chrono::steady_clock::time_point until) const;
  /// The id of rank 0's pool, in hexadecimal digits.
  [[nodiscard]] const std::string& first_pool() const noexcept { return first_pool_; }

  void fence(barrier_level level);
  void barrier(barrier_level level);
  version tag(const tag_options& label);
  void change(icecore::consistency mode);
  void change(icecore::protection allowed);
  [[nodiscard]] checkpoint_event checkpoint(const std::filesystem::path& folder);
  /// upkeep/compaction.cpp
  compaction_report compact(const compaction_options& how);
  // upkeep/retention.cpp
  void set_retention(const icecore::retention& which);
  [[nodiscard]] icecore::retention retention();
  // upkeep/holds.cpp
  version hold_version(std::string_view name, std::optional<version> at);
  void release_version(std::string_view name);
  /// upkeep/forgetting.cpp
  forget_report forget(const forget_request& what);
  // Kept queries (query/queries.cpp); all are collective
  [[nodiscard]] query start_query(const query_request& what);
  [[nodiscard]] query find_query(std::string_view name, const function_resolver& functions);
  query_progress run_query(query& part, const run_options& how);
  [[nodiscard]] query_progress progress_of_query(const query& part);
  /// Changes each rank's part.
  void change_query(query& part, const std::function<void(query&)>& change);
  void drop_query(std::string_view name);
  void signal_notify(int signum, std::span<const int> ranks);
  void signal_wait(int signum, std::span<const int> ranks);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int ranks() const noexcept { return ranks_; }
  [[nodiscard]] int owner_of(std::string_view key) const { return ownership_.owner_of(key, ranks_); }
  [[nodiscard]] bool ordered() const noexcept { return ownership_.ordered(); }
  /// Whether owner_of() accepts complete keys only, because it calls the caller's function.
  [[nodiscard]] bool owns_whole_keys() const noexcept { return ownership_.custom(); }
  [[nodiscard]] int group_of(int rank) const;
  [[nodiscard]] bool reaches_directly(int rank) const;
  // acquire: a thread that got a version from a rank's finished tag() finds it closed
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
  // ---- Opening (open/opening.cpp) ----
  struct found_manifest {
    std::optional<manifest> here;
    bool everywhere = false;
    bool anywhere = false;
  };
  void agree_on_arguments(const cluster_options& opening);
  /// Checks that the ranks of a node have the same folder.
  void check_folder();
  /// `restores`: the folder may hold a checkpoint.
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
  /// Sets all clocks to the greatest of them. Precondition: no write is under way on any rank.
  void align_clocks(step compared, step aligned, const std::exception_ptr& failure = nullptr);
  /// The same while an exception that all ranks throw is being handled. Does nothing if the cluster is broken.
  void align_after_failure(step compared, step aligned);
  void begin_collective() const;
  void barrier_of_all(barrier_level level);
  version tag_of_all(const tag_options& label);
  /// The same, while no rank writes.
  version tag_held(const tag_options& label);
  version hold_version_of_all(std::string_view name, std::optional<version> at);
  [[nodiscard]] checkpoint_event checkpoint_of_all(const std::filesystem::path& folder);
  /// Makes this rank's last use of MPI.
  void part() noexcept;
  void check_label(const tag_options& label) const;
  /// The one owner of all keys of a batch that is not empty. errc::invalid_argument if there are several.
  [[nodiscard]] int owner_of_all(const batch& operations) const;
  template <typename Apply>
  void change(std::int64_t wanted, Apply&& apply);

  // ---- Kept queries (query/queries.cpp) ----
  [[nodiscard]] query start_query_of_all(const query_request& what);
  [[nodiscard]] bool agree_on_query(std::string_view name, std::optional<query>& part,
                                    const function_resolver& functions);

  // ---- Upkeep (upkeep/compaction.cpp) ----
  friend class cluster_compaction;
  void agree_on_expired_versions();

  // ---- Extraction (read/extraction.cpp) ----
  /// Agrees with all ranks that they ask for the same. Afterwards channel_ exists.
  void enter_extraction(const std::function<void()>& check_arguments, std::int64_t digest) const;
  template <typename Move>
  auto with_all(Move&& move) const;

  [[nodiscard]] auto waiting() const {
    return [this](auto&& done) { running_.wait(done); };
  }
  [[nodiscard]] write_gate::hold hold_writes() { return {gate_, waiting()}; }
  [[nodiscard]] partition& owner(std::string_view key) const { return of(owner_of(key)); }
  /// Whether this rank caches what it finds at that owner: no rank may write, and the value came in a message.
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
  std::vector<int> nodes_;                        // by rank: the lowest rank of its node
  std::filesystem::path shared_as_;               // path of this rank's store for its group; empty: not shared
  std::vector<std::unique_ptr<store>> attached_;  // by rank, until connect(); null: reached by messages
  std::vector<bool> direct_;                      // by rank

  std::atomic<version> clock_{0};
  version_ranges lost_;       // versions lost on any rank; constant after opening
  expired_versions expired_;  // of all ranks
  std::string first_pool_;
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
