// Opens a store as a verb needs it.
#pragma once

#include <string>

#include "icecore/store.hpp"
#include "line/arguments.hpp"

namespace icecore::cli {

/// Opens for reading: the file is not changed, and other readers may have it open too.
[[nodiscard]] store open_to_read(const std::string& path, const read_arguments& read = {});

/// How open_to_write() opens, without its progress bar.
[[nodiscard]] options options_to_write(const write_arguments& write, creation creation);

/// Opens for writing: `creation` says whether the store must exist already.
[[nodiscard]] store open_to_write(const std::string& path, const write_arguments& write, creation creation);

}  // namespace icecore::cli
