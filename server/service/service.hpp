// The whole server but for its doors: databases by name, users, limits, counters, snapshots of everything.
//
//   service s({.data = "/var/lib/icecore"});
//   principal who = s.users().recognise(token);
//   s.create(who, {.name = "weights", .rule = version_rule::write});
//   std::shared_ptr<database> db = s.find_database(who, "weights");
//   s.stop(30s);
//
// In the data folder: `catalog.ice`, a store that keeps the settings of databases, the users and the server's identity,
// and `databases/NUMBER/store.ice` for each database. A database is in the catalog only while its folder is complete:
// making one writes the folder first and dropping one the catalog first, so a crash between leaves at most a folder
// that nobody names, which the next start removes.
//
// A database that cannot be opened (damage, for example) is not served, the others are; not_ready() names it.
// Threads: any number. Errors: icecore::error; denied for databases that do not exist or that `who` has no right to.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/access.hpp"
#include "service/database.hpp"
#include "service/executor.hpp"
#include "service/group_link.hpp"
#include "service/group_place.hpp"
#include "service/limits.hpp"
#include "service/snapshot/restoring.hpp"

namespace icecore::service {

struct service_options {
  std::filesystem::path data;
  icecore::service::limits limits{};
  database_settings defaults{};  ///< of databases whose maker says nothing
  bool users = false;
  group_place group{};
  group_link* link = nullptr;  ///< of a dependent group; outlives the service
  unsigned threads = 0;        ///< of the applier, syncs and long reads; 0: twice the cores, at least 4
  std::function<void(std::string_view event, const std::vector<std::pair<std::string, std::string>>& fields)> log{};
};

/// A database, and the number that it has as long as it exists and no other one ever gets.
struct numbered_database {
  std::shared_ptr<database> open;
  std::uint64_t number;
};

class service {
 public:
  /// Opens the folder, or makes it. errc::locked if another server has it, other_cluster if it belongs to another place
  /// of a group.
  explicit service(service_options opening);
  ~service();
  service(const service&) = delete;
  service& operator=(const service&) = delete;

  [[nodiscard]] const service_options& options() const noexcept;
  /// errc::not_owner if another server of an independent group has the key.
  void require_owner(std::string_view key) const;
  [[nodiscard]] access& users() noexcept;
  [[nodiscard]] executor& threads() noexcept;
  /// 32 hexadecimal digits, made with the folder.
  [[nodiscard]] const std::string& identity() const noexcept;

  // ---- Databases ----
  std::shared_ptr<database> create(const principal& who, database_settings settings);
  /// errc::denied, unless `who` may do something with it; unavailable, saying why, if it is not served.
  [[nodiscard]] std::shared_ptr<database> find_database(const principal& who, std::string_view name);
  [[nodiscard]] numbered_database find_numbered(const principal& who, std::string_view name);
  /// Those that `who` may do something with, by name.
  [[nodiscard]] std::vector<database_settings> list(const principal& who);
  /// A new database with the state of one version of another. Returns when it is complete.
  std::shared_ptr<database> copy(const principal& who, std::string_view from, const point& at,
                                 database_settings settings);
  void change(const principal& who, std::string_view name, const changed_settings& what);
  /// Its space is free when the last reader is done.
  void drop(const principal& who, std::string_view name);

  // ---- Snapshots of the service ----
  /// Writes all databases, as they are at one instant, into a new folder: complete or not at all. Writes go on. Of a
  /// dependent group: one instant of all servers, into a folder that all of them share.
  /// errc::store_exists, no_space, denied unless `who` is root; limit_reached if the group is writing another one.
  snapshot_report write_snapshot(const principal& who, const std::filesystem::path& to,
                                 const icecore::progress_function& on_progress = {});
  /// Makes a data folder from a snapshot, which is checked first: service/snapshot/restoring.hpp.
  static restore_notes restore_snapshot(const restore_request& what) {
    return icecore::service::restore_snapshot(what);
  }
  static void restore_snapshot(const std::filesystem::path& from, const std::filesystem::path& to) {
    static_cast<void>(icecore::service::restore_snapshot({.from = {from}, .to = to}));
  }

  // ---- Groups ----
  /// Tells all servers of a dependent group where programs of the job reach this one. Elsewhere it does nothing.
  void announce(const std::string& address);
  /// What the servers of the group have announced, by their numbers.
  [[nodiscard]] std::map<std::uint32_t, std::string> announced() const;

  // ---- Seeing inside ----
  /// What is not served: a database's name, and why. Empty: all is well.
  [[nodiscard]] std::vector<std::pair<std::string, failure>> not_ready() const;
  [[nodiscard]] gauge& in_flight_bytes() noexcept;
  [[nodiscard]] gauge& connections() noexcept;
  /// Of callers who have not logged in.
  [[nodiscard]] gauge& strangers_bytes() noexcept;
  [[nodiscard]] gauge& watches() noexcept;
  [[nodiscard]] gauge& health_watches() noexcept;
  [[nodiscard]] gauge& open_scans() noexcept;
  /// How often limits were reached of which nothing is given out; the doors count theirs, too.
  [[nodiscard]] refusals& refused() noexcept;

  /// Answers what waits and closes all databases. Later calls fail with errc::unavailable.
  void stop();

 private:
  void forget_copy(const std::shared_ptr<database>& made, const std::string& name);
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace icecore::service
