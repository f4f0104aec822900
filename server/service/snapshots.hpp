// Snapshots of the whole service, on disk: a folder with the stores of all databases and of the catalog as they were at
// one instant, and a manifest that names each file with its size and checksum.
//
//   SNAPSHOT/manifest.json   SNAPSHOT/catalog.ice   SNAPSHOT/databases/7/store.ice ...
//
// The folder is written under another name beside it, synced, and renamed when it is complete: a crash leaves either a
// complete snapshot or a folder "NAME.partial", which the next snapshot of that name replaces.
// A restored folder is made in the same way, after all files were compared with the manifest.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "icecore/checkpoint.hpp"
#include "service/service.hpp"

namespace icecore::service {

struct snapshot_part {
  std::string name;  ///< the database; empty: the catalog
  std::string file;  ///< within the folder
  icecore::checkpoint taken;
};

/// errc::store_exists, io, no_space, and those of checkpoint::write().
[[nodiscard]] snapshot_report write_parts_of_snapshot(const std::vector<snapshot_part>& parts,
                                                      const std::string& identity, const std::filesystem::path& to,
                                                      const icecore::progress_function& on_progress);
/// errc::bad_input, damaged, store_exists, io, no_space.
void restore_parts_of_snapshot(const std::filesystem::path& from, const std::filesystem::path& to,
                               const icecore::progress_function& on_progress);

}  // namespace icecore::service
