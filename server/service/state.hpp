// What a service is made of: its parts in the order in which they are made, and what its databases are made, changed
// and dropped by (databases.cpp). For service.cpp and databases.cpp alone.
//
// In a group create_here(), change_here() and drop_here() are executed by all servers together, in steps (steps.hpp).
// They lead to the same at all: what cannot be done at one server is undone at the others.
#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/catalog.hpp"
#include "service/service.hpp"
#include "service/snapshot/writing.hpp"
#include "service/steps.hpp"

namespace icecore::service {

void apply(const changed_settings& what, database_settings& to);

struct service::state {
  explicit state(service_options asked)
      : options(std::move(asked)),
        in_flight("limits.in_flight_bytes", options.limits.in_flight_bytes),
        connections("limits.connections", options.limits.connections),
        strangers_bytes("limits.strangers_bytes", options.limits.strangers_bytes),
        watches("limits.watchers", options.limits.watches),
        health_watches("limits.health_watches", options.limits.health_watches),
        scans("limits.open_scans", options.limits.open_scans),
        known(agreed(options)),
        users(known.store(), options.users, std::chrono::hours(12), options.link),
        syncing(threads_of(options.threads)),
        blocking(threads_of(options.threads)) {
    if (options.link == nullptr) return;
    snapshots.emplace(group_snapshots::parts{.link = options.link,
                                             .pool = &blocking,
                                             .catalog = &known.store(),
                                             .identity = known.identity(),
                                             .place = options.group,
                                             .databases = [this] { return all_served(); }});
  }
  [[nodiscard]] static unsigned threads_of(unsigned asked);
  // The catalog; in a group it has what the first server's has. A server that died while an order was executed may have
  // missed what the first one has done of it, or have done what that one has not.
  static catalog agreed(const service_options& options);

  struct served {
    std::shared_ptr<database> open;  // empty: it could not be opened
    std::optional<failure> why;
    catalog_entry entry;
  };

  void log(std::string_view event, const std::vector<std::pair<std::string, std::string>>& fields) const {
    if (options.log) options.log(event, fields);
  }
  [[nodiscard]] std::filesystem::path folder(std::uint64_t number) const {
    return options.link != nullptr ? options.link->folder(number) : options.data / "databases" / std::to_string(number);
  }
  /// Where the databases' folders are.
  [[nodiscard]] static std::filesystem::path folders_of(const service_options& options) {
    return options.link != nullptr ? options.link->folder(0).parent_path() : options.data / "databases";
  }
  [[nodiscard]] database_environment environment() {
    return {.pool = &syncing,
            .device_has_room = [this] { return has_room.load(std::memory_order_relaxed); },
            .leases_most = options.limits.leases,
            .refused = &refused,
            .memory = &in_flight};
  }
  void look_at_device();
  void require_running() const {
    if (stopped) throw icecore::error(errc::unavailable, "the server is stopping");
  }
  void require_running_now() const {
    const std::lock_guard lock(mutex);
    require_running();
  }
  served& require(const principal& who, std::string_view name, right what) {
    require_running();
    const auto found = databases.find(name);
    if (found == databases.end() ||
        !who.allows(name, found->second.entry.settings.owner, icecore::key_bounds{}, what)) {
      deny(name);
    }
    return found->second;
  }
  [[nodiscard]] bool may_see(const principal& who, const catalog_entry& entry) const {
    const database_settings& s = entry.settings;
    return who.knows(s.name, s.owner);
  }
  void open_all();
  // What create(), change() and drop() do on this server, once it is known that the user may.
  void create_here(const database_settings& settings);
  void change_here(std::string_view name, const changed_settings& what);
  void drop_here(std::string_view name);
  std::string execute(const std::string& order);
  [[nodiscard]] std::vector<snapshot_source> all_served() const;
  [[nodiscard]] std::vector<snapshot_part> capture();
  [[nodiscard]] snapshot_report write_group_snapshot(const std::filesystem::path& to,
                                                     const icecore::progress_function& on_progress);
  void remove_orphans() const;
  /// In a group: at all servers, or at none.
  [[nodiscard]] std::shared_ptr<database> make(const catalog_entry& entry);
  void undo_create(const catalog_entry& entry, std::shared_ptr<database> made);
  void remove_folder(const catalog_entry& entry, steps& together) const;

  service_options options;
  gauge in_flight;
  gauge connections;
  gauge strangers_bytes;
  gauge watches;
  gauge health_watches;
  gauge scans;
  refusals refused{};
  catalog known;
  access users;
  executor syncing;   // appliers, syncs and timers: its tasks wait for devices alone
  executor blocking;  // what doors do that may wait for the other one
  std::atomic<bool> has_room{true};
  mutable std::mutex mutex;  // databases, stopped; never held while a device or another server is waited for
  std::map<std::string, served, std::less<>> databases;
  std::map<std::uint32_t, std::string> addresses;  // of the group's servers; guarded by `mutex`, too
  bool stopped = false;
  std::mutex writing_snapshot;  // one snapshot of a server that stands alone at a time; before `making`
  std::mutex making;            // one database is made, copied or dropped at a time, or all are captured
  std::optional<group_snapshots> snapshots;
  executor::repetition looks_at_device;
};

}  // namespace icecore::service
