// A database that lies on all servers of a dependent group: an icecore cluster.
//
//   auto db = std::make_shared<cluster_database>(MPI_COMM_WORLD, folder, settings, around, together, orders);
//
// Any server answers any request: what concerns one key is done by the key's owner, in an update of the cluster, which
// an owner executes one at a time; so conditions and updates see every write before them. What concerns versions (tags,
// compaction, syncs) is an order that all servers execute together, so a tag is one cut of all.
//
// Space is looked at by a key's owner: each server keeps its part within an equal share of the quota, and refuses
// writes while its own device has too little room, whichever server the write came to. Removals go on
// (service/write/space.hpp).
//
// Under durability `tag` a version that was closed for a reader alone is in no sync yet, and a power cut may take it:
// so watches are told of it when the next tag, or the timer, has made it durable.
//
// What a group does not do: transactions of several keys, and leases (errc::invalid_argument).
// Threads: MPI_THREAD_MULTIPLE is needed. Cost: for a key of this server, that of its store; for another's, a message
// there and one back.
#pragma once

#include <mpi.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>

#include "group/watches.hpp"
#include "icecore/cluster.hpp"
#include "service/database.hpp"
#include "service/executor.hpp"
#include "service/read/gate.hpp"
#include "service/read/value_codec.hpp"
#include "service/steps.hpp"
#include "service/write/leases.hpp"
#include "service/write/space.hpp"

namespace icecore::server::group {

/// How the cluster of such a database is opened, but for the durability `best_available`.
[[nodiscard]] icecore::cluster_options cluster_options_of(const service::database_settings& settings);

class cluster_database final : public service::database {
 public:
  /// Gives an order for this database to all servers, and returns the first one's answer.
  using order_function = std::function<std::string(const std::string& order)>;

  /// Collective: made on all servers, or on none.
  cluster_database(MPI_Comm servers, const std::filesystem::path& folder, service::database_settings settings,
                   const service::database_environment& around, service::steps together, order_function everywhere);
  ~cluster_database() override;

  /// Executes what `everywhere` was given: every server, in the same sequence.
  std::string execute(const std::string& order);

  [[nodiscard]] service::database_settings settings() const override;
  [[nodiscard]] service::database_status status() const override;

  void write(service::transaction what, service::completion done) override;
  /// This server's own keys, unless a device is waited for.
  std::optional<icecore::version> put_at_once(std::string_view key, std::string_view value) override;
  [[nodiscard]] bool writes_at_once(std::string_view key) const noexcept override { return is_near(key); }
  [[nodiscard]] bool queues_writes() const noexcept override { return false; }
  std::uint64_t load(const service::row_block& rows, bool keep) override;
  void sync() override;

  icecore::version resolve(const service::point& at) override;
  std::optional<service::found> find(std::string_view key, const service::point& at) override;
  /// The present of this server's own keys: other points are known to all servers together.
  [[nodiscard]] bool finds_at_once(std::string_view key, const service::point& at) const noexcept override {
    return std::holds_alternative<service::newest>(at) && is_near(key);
  }
  [[nodiscard]] std::unique_ptr<service::row_stream> scan(const service::scan_request& what) override;
  [[nodiscard]] std::unique_ptr<service::row_stream> history(std::string_view key,
                                                             const service::point& up_to) override;
  [[nodiscard]] std::unique_ptr<service::row_stream> differences(const service::difference_request& what) override;
  [[nodiscard]] std::unique_ptr<service::row_stream> changes(const service::changes_request& what) override;
  std::uint64_t count(const icecore::key_bounds& bounds, const service::point& at) override;
  [[nodiscard]] std::unique_ptr<service::watch> watch_changes(const service::watch_request& what) override;

  icecore::version tag(const icecore::tag_options& label) override;
  [[nodiscard]] std::vector<icecore::tag_info> tags() override;
  [[nodiscard]] std::optional<icecore::tag_info> find_tag(const service::point& at) override;
  void compact(icecore::version oldest_kept) override;

  service::lease_info grant(std::chrono::milliseconds time, service::lease_number wanted) override;
  service::lease_info keep_alive(service::lease_number lease) override;
  void revoke(service::lease_number lease, std::function<void(std::string_view key)> may_remove,
              service::completion done) override;
  [[nodiscard]] service::lease_info lease(service::lease_number lease, bool keys) override;
  [[nodiscard]] std::vector<service::lease_number> leases() override { return {}; }

  void change(const service::changed_settings& what) override;
  /// Collective, as its take(): see writes_.
  [[nodiscard]] std::unique_ptr<service::held_still> hold() override;
  [[nodiscard]] icecore::verify_report verify(const icecore::progress_function& on_progress) override;
  /// Collective.
  void close() override;

  /// Closes the open version on all servers, if the rule is `every`: the first server's timer.
  void close_version();

 private:
  class stillness;
  using shared = std::shared_lock<std::shared_mutex>;
  [[nodiscard]] shared open() const;  // errc::unavailable once it is closed
  void require_open() const;
  std::string order_all(const std::string& order);
  [[nodiscard]] bool is_near(std::string_view key) const noexcept;
  /// By this server alone, and without waiting for a sync. The database is open.
  [[nodiscard]] bool is_written_here(std::string_view key) const;
  [[nodiscard]] service::outcome at_owner(const service::transaction& what);
  [[nodiscard]] service::outcome execute_here(std::string_view key, std::optional<std::string>& value,
                                              const service::transaction& what, bool& changed);
  [[nodiscard]] bool promises_tags() const { return cluster_->local().durability().mode == icecore::durability::tag; }
  [[nodiscard]] std::uint64_t share_of(std::uint64_t quota_bytes) const;
  /// Collective.
  icecore::version close_together(bool durable);
  void tell_watches(icecore::version closed, bool sync);
  [[nodiscard]] icecore::version version_at(const service::point& at);
  [[nodiscard]] icecore::version closed_version_at(const service::point& at);
  void require_kept(icecore::version at) const;
  icecore::version close_open_version(bool durable);

  mutable std::mutex settings_mutex_;  // what change() changes of the settings
  service::database_settings settings_;
  order_function everywhere_;
  std::optional<icecore::cluster> cluster_;  // empty once closed
  std::shared_ptr<const service::value_codec> codec_;
  std::optional<service::lease_table> no_leases_;
  std::atomic<icecore::version> compacted_{0};
  std::shared_ptr<watchers> watchers_;
  service::gate calls_;  // calls are inside, but not while they wait for an order; alone: close()
  MPI_Comm servers_;
  // Every write of this server's clients is inside. Who holds still has it alone, waits for all servers to have theirs,
  // and lets go after all servers have captured their parts: between, no write takes effect anywhere. Writes of others'
  // clients to keys of this server are inside over there, and the cluster's own thread answers them.
  service::gate writes_;
  service::gauge* memory_;  // what this server does with its keys for others' requests takes of it; may be null
  // An order that comes after a write's answer finds it set.
  std::atomic<bool> written_{true};
  // Under durability `tag`: the newest version that a barrier at storage level covered. Relaxed: a number that status()
  // tells; orders alone change it.
  std::atomic<icecore::version> synced_{0};
  std::optional<service::space> space_;           // of this server's part
  service::executor::repetition looks_at_space_;  // ends before what it looks at
};

}  // namespace icecore::server::group
