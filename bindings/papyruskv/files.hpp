// The files of databases in a repository: a folder for each, with a pool for each rank and a manifest.
#pragma once

#include <filesystem>

namespace papyruskv {

/// Removes the database's files, and its folder if it is then empty. Files that others remove meanwhile, or have
/// removed, are not an error. errc::io, errc::permission if something cannot be removed.
void remove_database(const std::filesystem::path& folder);
/// The same for all databases of a repository, and its folder. Checkpoints in it stay.
void remove_repository(const std::filesystem::path& folder);

}  // namespace papyruskv
