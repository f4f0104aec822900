// A database in one store: what most databases are.
//
//   auto db = std::make_shared<store_database>(folder / "store.ice", settings, environment);
//
// Main path of a write: write() → space → write_path (applied_writes or direct_writes) → execute() → the store →
// durable_answers. Of a read: find() or scan() → resolve() → a snapshot of the store → streams.
//
// Every call enters the gate, and so do the calls of the streams and watches that it gave out. Changing the rule
// excludes them while one write path is finished and another one made, and so does close().
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "icecore/store.hpp"
#include "service/database.hpp"
#include "service/executor.hpp"
#include "service/read/gate.hpp"
#include "service/read/value_codec.hpp"
#include "service/read/watches.hpp"
#include "service/snapshot/store_life.hpp"
#include "service/write/leases.hpp"
#include "service/write/space.hpp"
#include "service/write/write_path.hpp"

namespace icecore::service {

class store_database final : public database {
 public:
  /// Opens the store at `path` or makes it. Errors: those of opening a store.
  store_database(const std::filesystem::path& path, database_settings settings, const database_environment& around);
  ~store_database() override;

  [[nodiscard]] database_settings settings() const override;
  [[nodiscard]] database_status status() const override;

  void write(transaction what, completion done) override;
  std::optional<icecore::version> put_at_once(std::string_view key, std::string_view value) override;
  [[nodiscard]] bool writes_at_once(std::string_view) const noexcept override { return true; }
  [[nodiscard]] bool queues_writes() const noexcept override { return queues_writes_.load(std::memory_order_relaxed); }
  std::uint64_t load(const row_block& rows, bool keep) override;
  void sync() override;

  icecore::version resolve(const point& at) override;
  std::optional<found> find(std::string_view key, const point& at) override;
  [[nodiscard]] bool finds_at_once(std::string_view, const point&) const noexcept override {
    return finds_at_once_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::unique_ptr<row_stream> scan(const scan_request& what) override;
  [[nodiscard]] std::unique_ptr<row_stream> history(std::string_view key, const point& up_to) override;
  [[nodiscard]] std::unique_ptr<row_stream> differences(const difference_request& what) override;
  [[nodiscard]] std::unique_ptr<row_stream> changes(const changes_request& what) override;
  std::uint64_t count(const icecore::key_bounds& bounds, const point& at) override;
  [[nodiscard]] std::unique_ptr<watch> watch_changes(const watch_request& what) override;

  icecore::version tag(const icecore::tag_options& label) override;
  [[nodiscard]] std::vector<icecore::tag_info> tags() override;
  [[nodiscard]] std::optional<icecore::tag_info> find_tag(const point& at) override;
  void compact(icecore::version oldest_kept) override;

  lease_info grant(std::chrono::milliseconds time, lease_number wanted) override;
  lease_info keep_alive(lease_number lease) override;
  void revoke(lease_number lease, std::function<void(std::string_view key)> may_remove, completion done) override;
  [[nodiscard]] lease_info lease(lease_number lease, bool keys) override;
  [[nodiscard]] std::vector<lease_number> leases() override;

  void change(const changed_settings& what) override;
  [[nodiscard]] std::unique_ptr<held_still> hold() override;
  [[nodiscard]] std::optional<failure> sickness() const override;
  [[nodiscard]] icecore::verify_report verify(const icecore::progress_function& on_progress) override;
  void close() override;

 private:
  class stillness;
  [[nodiscard]] gate::pass open() const;  // errc::unavailable once it is closed
  [[nodiscard]] write_parts parts();
  void begin_path();
  void begin_timers();
  void end_leases_that_are_over();
  [[nodiscard]] icecore::snapshot snapshot_at(const point& at);
  void require_kept(icecore::version at) const;
  void require_writable() const;
  void execute_and_wait(transaction what);
  [[nodiscard]] icecore::feed feed_after(icecore::version after, const icecore::key_bounds& bounds) const;

  database_environment around_;
  std::mutex whole_;  // held by close() and change(), before the gate excludes calls
  database_settings settings_;
  std::shared_ptr<gate> gate_;             // calls enter; excluded: close(), change()
  std::shared_ptr<icecore::store> store_;  // empty once closed
  std::shared_ptr<store_life> life_;       // of *store_
  std::shared_ptr<const value_codec> codec_;
  std::optional<lease_table> leases_;
  std::optional<space> space_;
  watch_list watches_;
  bool promises_operations_;
  // Reads of durable versions, or of a database that promises nothing. Relaxed: a hint, which change() may overtake.
  std::atomic<bool> finds_at_once_{false};
  std::atomic<bool> queues_writes_{false};
  std::atomic<icecore::version> compacted_{0};  // relaxed: a read that begins after compact() returned sees it anyway
  mutable std::mutex sick_mutex_;
  std::optional<failure> sick_;
  std::atomic<bool> poisoned_{false};
  std::unique_ptr<write_path> path_;
  executor::repetition closes_versions_;
  executor::repetition ends_leases_;
  executor::repetition looks_at_space_;
};

}  // namespace icecore::service
