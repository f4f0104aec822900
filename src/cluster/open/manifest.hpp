// What a cluster's folder says of it: a small text file `manifest` beside the pools.
//
//   icecore cluster 1
//   id 2f6c...                      32 hexadecimal digits, the same in every folder of a cluster
//   ranks 4
//   owner hash                      ownership::description()
//   pool 0 91ab...                  the pool's id, for each rank
//
// A checkpoint's folder has a file `checkpoint` with the same lines, whose id is part of its files' names:
// `rank-0.2f6c....ice`.
//
// It is written when all pools are made and before anything is in them: pools without a manifest hold nothing, or the
// manifest was lost.
// Durability: on disk, whole, when write_manifest() returns; a crash leaves the old one or the new one.
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

/// What a manifest stands for: the pools of a cluster, or the files of a checkpoint.
enum class manifest_of : std::uint8_t { cluster, checkpoint };

/// With all folders above it, if they are not there. errc::permission, io.
void make_folder(const std::filesystem::path& path);

/// The pool of a rank.
[[nodiscard]] std::filesystem::path pool_path(const std::filesystem::path& folder, int rank);
/// Whether that is the name of some rank's pool.
[[nodiscard]] bool is_pool_name(std::string_view name) noexcept;

/// A rank's file of the checkpoint with this id.
[[nodiscard]] std::filesystem::path checkpoint_part(const std::filesystem::path& folder, std::string_view id, int rank);

/// Whether there is one, be it readable or not.
[[nodiscard]] bool has_manifest(const std::filesystem::path& folder, manifest_of what = manifest_of::cluster);

/// Empty if there is none. errc::other_cluster if it cannot be understood; io, permission.
[[nodiscard]] std::optional<manifest> read_manifest(const std::filesystem::path& folder,
                                                    manifest_of what = manifest_of::cluster);

/// `writer` is a number that no other process has that writes here at the same time.
void write_manifest(const std::filesystem::path& folder, const manifest& content, int writer,
                    manifest_of what = manifest_of::cluster);

/// If there is one.
void remove_manifest(const std::filesystem::path& folder) noexcept;

/// Makes the files of all ranks, which are whole and on their device, the folder's checkpoint. errc::io if one is not
/// there. If it throws, the checkpoint before is still there, or this one is: all files are to stay.
void complete_checkpoint(const std::filesystem::path& folder, const manifest& content);

/// The right to write a checkpoint into a folder, as long as it lives, among all jobs of the machine (of all machines
/// where the file system has locks for all of them).
class folder_lock {
 public:
  /// errc::locked if another one has it.
  explicit folder_lock(const std::filesystem::path& folder);
  ~folder_lock();
  /// Removes the files of all checkpoints but one from the folder, whatever its name is now.
  void remove_other_parts(const std::string& kept_id) const noexcept;
  folder_lock(const folder_lock&) = delete;
  folder_lock& operator=(const folder_lock&) = delete;

 private:
  int descriptor_;
};

/// A new id: 32 hexadecimal digits.
[[nodiscard]] std::string random_id();

}  // namespace icecore::mpi
