// What a cluster's folder says of it: a small text file `manifest` beside the pools.
//
//   icecore cluster 1
//   id 2f6c...                      32 hexadecimal digits, the same in every folder of a cluster
//   ranks 4
//   owner hash                      ownership::description()
//   pool 0 91ab...                  the pool's id, for each rank
//
// It is written when all pools are made and before anything is in them: pools without a manifest hold nothing, or the
// manifest was lost.
// Durability: on disk, whole, when write_manifest() returns; a crash leaves the old one or the new one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace icecore::mpi {

struct manifest {
  std::string id;
  int ranks = 0;
  std::string owner;
  std::vector<std::string> pools;  ///< by rank
};

/// The pool of a rank.
[[nodiscard]] std::filesystem::path pool_path(const std::filesystem::path& folder, int rank);

/// Empty if there is none. errc::other_cluster if it cannot be understood; io, permission.
[[nodiscard]] std::optional<manifest> read_manifest(const std::filesystem::path& folder);

/// `writer` is a number that no other process has that writes here at the same time.
void write_manifest(const std::filesystem::path& folder, const manifest& content, int writer);

}  // namespace icecore::mpi
