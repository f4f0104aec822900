// What is in a snapshot of a service: the file `manifest.json` in its folder, which is written last.
//
//   {"format": 1, "server": "...", "place": {"name": "", "index": 0, "size": 1},
//    "files": [{"file": "databases/7/store.ice", "database": "weights", "version": 12, "bytes": 4096, "sha256":
//    "..."}]}
//
// The snapshot of a dependent group has format 2, `"dependent": true`, and for each database one file of each server,
// in the order of the servers: databases/7/rank-0.ice, databases/7/rank-1.ice ... The catalog's file names no database.
// Errors of reading: bad_input if there is no manifest; damaged, unsupported_format, naming the file. Threads: any.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/options.hpp"
#include "service/group_place.hpp"

namespace icecore::service {

struct snapshot_file {
  std::string file;      ///< within the folder; never outside of it
  std::string database;  ///< empty: the catalog
  icecore::version version = 0;
  std::uint64_t bytes = 0;
  std::string sha256;
};

struct snapshot_manifest {
  std::string server;  ///< the identity of the server that wrote it
  group_place place{};
  bool dependent = false;
  std::vector<snapshot_file> files;

  [[nodiscard]] std::vector<const snapshot_file*> files_of(std::string_view database) const;
};

/// What a snapshot of the service holds, as its manifest says.
struct snapshot_report {
  struct part {
    std::string database;
    icecore::version version;
    std::uint64_t bytes;
  };
  std::filesystem::path path;
  std::vector<part> parts;
};

inline constexpr std::string_view manifest_name = "manifest.json";
inline constexpr std::string_view catalog_name = "catalog.ice";

/// Durable when it returns.
void write_manifest(const std::filesystem::path& folder, const snapshot_manifest& what);
[[nodiscard]] snapshot_manifest read_manifest(const std::filesystem::path& folder);

/// The list alone, as JSON: what each server of a group leaves for the first one.
[[nodiscard]] std::string text_of(const std::vector<snapshot_file>& files);
[[nodiscard]] std::vector<snapshot_file> files_in(const std::filesystem::path& where, std::string_view text);

/// Reads the file and compares it with what the manifest says. errc::damaged.
void check_file(const std::filesystem::path& folder, const snapshot_file& what,
                const std::function<void(std::string_view piece)>& use = {});

}  // namespace icecore::service
