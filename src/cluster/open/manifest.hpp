// The manifest: a small text file `manifest` beside the pools that describes a cluster's folder.
//
//   icecore cluster 1
//   id 2f6c...                      32 hexadecimal digits, the same in every folder of a cluster
//   ranks 4
//   owner hash                      ownership::description()
//   pool 0 91ab...                  the pool's id, for each rank
//
// A checkpoint's folder has a file `checkpoint` with the same lines. Its id is part of the names of its files:
// `rank-0.2f6c....ice`.
//
// The manifest is written after all pools are made and before anything is written to them. If pools have no manifest,
// either they are empty or the manifest was lost.
// Durability: when write_manifest() returns, the complete file is on disk; a crash leaves the old one or the new one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace icecore::mpi {

struct manifest {
  std::string id;
  int ranks = 0;
  std::string owner;
  std::vector<std::string> pools;  ///< by rank
};

/// What a manifest describes: the pools of a cluster, or the files of a checkpoint.
enum class manifest_of : std::uint8_t { cluster, checkpoint };

/// Makes the folder and all folders above it that are missing. errc::permission, io.
void make_folder(const std::filesystem::path& path);

/// The pool of a rank.
[[nodiscard]] std::filesystem::path pool_path(const std::filesystem::path& folder, int rank);
/// Whether `name` is the name of some rank's pool.
[[nodiscard]] bool is_pool_name(std::string_view name) noexcept;

/// A rank's file of the checkpoint with this id.
[[nodiscard]] std::filesystem::path checkpoint_part(const std::filesystem::path& folder, std::string_view id, int rank);

/// Whether the folder has one, readable or not.
[[nodiscard]] bool has_manifest(const std::filesystem::path& folder, manifest_of what = manifest_of::cluster);

/// Empty if there is none. errc::other_cluster if its content is not understood; io, permission.
[[nodiscard]] std::optional<manifest> read_manifest(const std::filesystem::path& folder,
                                                    manifest_of what = manifest_of::cluster);

/// `writer` is a number that no other process that writes here at the same time has.
void write_manifest(const std::filesystem::path& folder, const manifest& content, int writer,
                    manifest_of what = manifest_of::cluster);

/// Removes the manifest, if there is one.
void remove_manifest(const std::filesystem::path& folder) noexcept;

/// Makes the files of all ranks, which are complete and on their device, the folder's checkpoint. errc::io if one is
/// missing. If it throws, either the previous checkpoint or this one is in place, so the caller must keep all files.
void complete_checkpoint(const std::filesystem::path& folder, const manifest& content);

/// The exclusive right to write a checkpoint into a folder, for the lifetime of this object, among all jobs of the
/// machine (of all machines if the file system has locks that cover them).
class folder_lock {
 public:
  /// errc::locked if another object has it.
  explicit folder_lock(const std::filesystem::path& folder);
  ~folder_lock();
  /// Removes the files of all checkpoints but one from the folder, even if the folder was renamed.
  void remove_other_parts(const std::string& kept_id) const noexcept;
  folder_lock(const folder_lock&) = delete;
  folder_lock& operator=(const folder_lock&) = delete;

 private:
  int descriptor_;
};

/// A new id: 32 hexadecimal digits.
[[nodiscard]] std::string random_id();

}  // namespace icecore::mpi
