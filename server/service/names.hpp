// Names of files and folders that survive a power cut.
//
//   std::filesystem::create_directories(folder);
//   keep_names_in(folder.parent_path());          // from here on a power cut does not take the folder's name
//
// A file's own sync keeps its content; its name is in its folder, whose sync keeps it (POSIX, fsync).
// Threads: any number. Errors: icecore::error, with what the system says: no_space, permission, io. Cost: one sync.
#pragma once

#include <filesystem>

namespace icecore::service {

/// Returns when the names that are in the folder, and no others, are durable. A file system that cannot sync folders
/// keeps them as well as it can.
void keep_names_in(const std::filesystem::path& folder);

/// Throws what a system call's failure is called here.
[[noreturn]] void failed_call(const std::filesystem::path& where, const char* what, int number);

}  // namespace icecore::service
