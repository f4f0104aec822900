// Which files a store of several files has: as options say, and as the root of the first file records.
//
// Threads: pure functions. Errors: errc::invalid_argument, each naming the placement.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "icecore/options.hpp"
#include "pool/format.hpp"

namespace icecore {

/// The files of a new store by number, including the first. Checks that there are not too many and none is named twice.
[[nodiscard]] std::vector<placement> files_of(const std::filesystem::path& path, const options& opening);

/// The number of these files.
[[nodiscard]] inline std::uint16_t file_count(const std::filesystem::path& path, const options& opening) {
  return opening.placements.empty() ? 1 : static_cast<std::uint16_t>(files_of(path, opening).size());
}

/// The file for a writer that runs on NUMA node `running_on`: a file of that node; if there is none, a file without a
/// node; else any file. `nodes`: the node of each file by number, -1 for none. Among several such files the writer's
/// number decides.
[[nodiscard]] std::uint16_t file_for(std::span<const int> nodes, int running_on, unsigned writer) noexcept;

/// The path of file `number` when a store is copied without placements.
[[nodiscard]] std::filesystem::path default_path(const std::filesystem::path& first, std::uint16_t number);

/// Whether both paths lead to the same place.
[[nodiscard]] bool same_place(const std::filesystem::path& a, const std::filesystem::path& b);

/// Whether this is a store of several files whose creation was interrupted: nothing was ever in it, and its root names
/// no other file yet.
[[nodiscard]] bool is_unfinished(const format::root& r) noexcept;

/// Whether the file names in the root can be read at all.
[[nodiscard]] bool has_sound_paths(const format::root& r) noexcept;

/// The files that the root of the first file names, by number. Precondition: has_sound_paths().
[[nodiscard]] std::vector<placement> named_files(const format::root& r, const std::filesystem::path& first);

/// Writes the names to the root of the first file: relative to its folder if they are beneath it, else absolute. If the
/// root has no room for such long paths, throws errc::invalid_argument and changes nothing.
void name_files(format::root& r, const std::vector<placement>& files);

/// Writes to the root of a secondary file where the first one is, for error messages; an empty name if it is too long.
void name_first(format::root& r, const std::filesystem::path& first);

}  // namespace icecore
