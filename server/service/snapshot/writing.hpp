// Snapshots of the whole service, on disk: a folder with the stores of all databases and of the catalog as they were at
// one instant, and a manifest that names each file with its size and checksum (manifest.hpp).
//
// Of a server that stands alone: SNAPSHOT/catalog.ice, SNAPSHOT/databases/7/store.ice ..., SNAPSHOT/manifest.json
// Of a dependent group: SNAPSHOT/databases/7/rank-0.ice, SNAPSHOT/databases/7/rank-1.ice ..., in a folder that all
// servers share.
//
// The folder is written under another name and renamed when it is complete (files.hpp).
// Errors: those of new_folder and of checkpoint::write().
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "icecore/checkpoint.hpp"
#include "icecore/store.hpp"
#include "service/database.hpp"
#include "service/executor.hpp"
#include "service/group_link.hpp"
#include "service/snapshot/manifest.hpp"

namespace icecore::service {

/// A database that a snapshot is to hold.
struct snapshot_source {
  std::string name;
  std::uint64_t number;
  std::shared_ptr<database> open;
};

/// A store as it was, for a file of the snapshot.
struct snapshot_part {
  snapshot_file as;
  icecore::checkpoint taken;
  std::shared_ptr<const void> kept{};  ///< `taken` can be written as long as it lives
};

/// The instant of a server that stands alone: all databases are held still at once, and each is captured in
/// O(segments). The parts can be written when the databases have been dropped, too.
[[nodiscard]] std::vector<snapshot_part> captured(const std::vector<snapshot_source>& all,
                                                  const icecore::store& catalog);

/// Makes the folder, asks `capture` for the parts, and writes these. What `look` throws ends it: it is called again and
/// again meanwhile, from this thread.
struct server_snapshot {
  std::string identity;
  group_place place;
  std::filesystem::path to;
  std::function<std::vector<snapshot_part>()> capture;
  std::function<void()> look;
};
[[nodiscard]] snapshot_report write_snapshot_of_server(const server_snapshot& what,
                                                       const icecore::progress_function& on_progress);

/// The snapshots of a dependent group, at one of its servers. Four orders make one:
///
///   begin    the first server makes the folder; on all servers all databases are held still, then captured, then let
///            go. From the instant when all servers hold still to that when all have captured, no write takes effect
///            anywhere: one cut. Then each server's pool writes that server's files, and a list of them last.
///   look     how far it is, again and again
///   end      the first server finds the lists of all servers, writes the manifest and gives the folder its name
///   abandon  in place of `end`, if anything has failed anywhere
///
/// What a crash leaves at any instant before `end` renames the folder is "NAME.partial".
/// Threads: write() from any that does not execute orders.
class group_snapshots {
 public:
  struct parts {
    group_link* link;
    executor* pool;
    icecore::store* catalog;
    std::string identity;
    group_place place;
    /// Throws if one is not served.
    std::function<std::vector<snapshot_source>()> databases;
  };
  explicit group_snapshots(parts of) : of_(std::move(of)) {}
  /// Ends what is being written.
  ~group_snapshots();
  group_snapshots(const group_snapshots&) = delete;
  group_snapshots& operator=(const group_snapshots&) = delete;

  /// Gives the orders. errc::limit_reached while another snapshot is being written.
  [[nodiscard]] snapshot_report write(const std::filesystem::path& to, const icecore::progress_function& on_progress);
  /// Executes one.
  [[nodiscard]] std::string execute(const std::string& step, const std::filesystem::path& to);

 private:
  struct running;
  [[nodiscard]] std::string order(const char* step, const std::filesystem::path& to) const;
  void begin(const std::filesystem::path& to);
  void require_running() const;
  [[nodiscard]] std::string look();
  [[nodiscard]] std::string complete();
  [[nodiscard]] std::string end();
  void abandon();

  parts of_;
  std::shared_ptr<running> running_;  // only the thread that executes orders uses it, until that has ended
};

}  // namespace icecore::service
