// Opens a store as a verb needs it, or lends the one that a shell has open.
#pragma once

#include <string>

#include "line/arguments.hpp"
#include "line/session.hpp"

namespace icecore::cli {

/// Opens for reading: the file is not changed, and other readers may have it open too.
[[nodiscard]] opened_store open_to_read(const std::string& path, const read_arguments& read = {});

/// The same, for as long as it takes: no process is ever kept from writing (options::never_locks).
[[nodiscard]] opened_store open_to_watch(const std::string& path, const read_arguments& read);

/// How open_to_write() opens, without its progress bar.
[[nodiscard]] options options_to_write(const write_arguments& write, creation creation);

/// Opens for writing: `creation` says whether the store must exist already.
[[nodiscard]] opened_store open_to_write(const std::string& path, const write_arguments& write, creation creation);

}  // namespace icecore::cli
