// Making data folders from snapshots: as they were, or for another number of servers.
//
//   restore_snapshot({.from = {"/backup/monday"}, .to = "/var/lib/icecore"});                      // as it was
//   restore_snapshot({.from = {"/backup/a", "/backup/b"}, .to = ..., .place = group_place{}});     // of two, for one
//   restore_snapshot({.from = {...}, .to = ..., .place = group_place{"g", 1, 3}});                 // for server 1 of 3
//
// `from` is one snapshot of a server or of a dependent group, or one of each independent server, in the order of their
// numbers. All files are compared with their manifests first. The folder is made under another name and renamed when
// it is complete (files.hpp). What is kept, and what is not, tells docs/operations.md.
// Threads: one. Errors: bad_input, damaged, unsupported_format, store_exists, io, no_space; those of stores.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "icecore/options.hpp"
#include "service/catalog.hpp"
#include "service/group_place.hpp"
#include "service/snapshot/manifest.hpp"
#include "service/snapshot/placing.hpp"

namespace icecore::service {

struct restore_request {
  std::vector<std::filesystem::path> from;
  std::filesystem::path to;
  std::optional<group_place> place{};  ///< which server the folder is for; empty: as the snapshot says
  icecore::progress_function on_progress{};
};

/// What was not kept, a sentence for each.
using restore_notes = std::vector<std::string>;

restore_notes restore_snapshot(const restore_request& what);
void append_notes(const std::string& database, const placed& done, restore_notes& to);

/// The snapshots that are restored together; what restoring a group needs of them, too.
class restore_source {
 public:
  /// Reads and checks the manifests. errc::bad_input, saying why, if they do not belong together or are not all.
  explicit restore_source(std::vector<std::filesystem::path> from);

  [[nodiscard]] std::size_t count() const noexcept { return from_.size(); }
  [[nodiscard]] const snapshot_manifest& first() const noexcept { return manifests_.front(); }
  /// Versions of one file of a database mean nothing to the others.
  [[nodiscard]] bool each_counts() const noexcept { return from_.size() > 1; }
  /// errc::bad_input unless they are the snapshots of all servers: one of several independent ones is not enough to
  /// restore for another number of servers.
  void require_all() const;
  /// Compares all files with the manifests.
  void check(const icecore::progress_function& on_progress) const;
  /// Copies a file of the first snapshot. Returns when the copy is durable.
  void copy(const snapshot_file& what, const std::filesystem::path& to, const icecore::progress_function& on_progress,
            std::pair<std::uint64_t, std::uint64_t> done_of_total) const;
  /// Copies the first snapshot's catalog and makes it one of a new server; empty place: the first start says which.
  /// errc::bad_input if the snapshots do not have the same databases.
  [[nodiscard]] catalog copy_catalog(const std::filesystem::path& to, const std::optional<group_place>& place) const;
  /// The stores of a database, of all servers.
  [[nodiscard]] std::vector<std::filesystem::path> parts_of(const std::string& database) const;

 private:
  std::vector<std::filesystem::path> from_;
  std::vector<snapshot_manifest> manifests_;
};

}  // namespace icecore::service
