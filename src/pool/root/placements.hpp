// Which files a store of several has, as options say and as the root of the first one remembers.
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

/// The files of a new store by number, the first one's placement among them. Checked: not too many, none twice.
[[nodiscard]] std::vector<placement> files_of(const std::filesystem::path& path, const options& opening);

/// How many these are.
[[nodiscard]] inline std::uint16_t file_count(const std::filesystem::path& path, const options& opening) {
  return opening.placements.empty() ? 1 : static_cast<std::uint16_t>(files_of(path, opening).size());
}

/// The file for a writer that runs on NUMA node `running_on`: one of that node's files; if the node has none, one of
/// the files of no node; if there is none of these either, any. `nodes`: of each file by number, -1 for none. Among
/// several files of one sort the writer's number decides.
[[nodiscard]] std::uint16_t file_for(std::span<const int> nodes, int running_on, unsigned writer) noexcept;

/// Where file `number` of a store is put that is copied without placements.
[[nodiscard]] std::filesystem::path default_path(const std::filesystem::path& first, std::uint16_t number);

/// Whether both lead to one place.
[[nodiscard]] bool same_place(const std::filesystem::path& a, const std::filesystem::path& b);

/// A store of several files whose creation was cut off: nothing was ever in it, and no other file is named yet.
[[nodiscard]] bool is_unfinished(const format::root& r) noexcept;

/// Whether what the root says of files can be read at all.
[[nodiscard]] bool has_sound_paths(const format::root& r) noexcept;

/// The files that the root of the first one names, by number. Precondition: has_sound_paths().
[[nodiscard]] std::vector<placement> named_files(const format::root& r, const std::filesystem::path& first);

/// Writes them to the root of the first file: relative to its folder if they are beneath it, else absolute.
/// errc::invalid_argument, and nothing has changed, if the root has no room for such long paths.
void name_files(format::root& r, const std::vector<placement>& files);

/// Writes to the root of a further file where the first one is, for errors; nothing if it is too long.
void name_first(format::root& r, const std::filesystem::path& first);

}  // namespace icecore
