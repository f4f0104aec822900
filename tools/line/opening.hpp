// Opens a store as a verb needs it, and finds the version that its arguments name.
#pragma once

#include <string>
#include <string_view>

#include "icecore/store.hpp"
#include "line/arguments.hpp"

namespace icecore::cli {

/// Opens for reading: the file is not changed, and other readers may have it open too.
[[nodiscard]] store open_to_read(const std::string& path, const read_arguments& read = {});

/// Opens for writing: `creation` says whether the store must exist already.
[[nodiscard]] store open_to_write(const std::string& path, const write_arguments& write, creation creation);

/// The version that `text` names: "latest", a number, "tag:NAME", a tag's name, or a unique beginning of one (at least
/// 4 characters). errc::unknown_tag says what to do.
[[nodiscard]] version version_named(const store& from, std::string_view text);

/// The version that --at and --at-time select.
[[nodiscard]] snapshot view_of(const store& from, const view_arguments& view);

}  // namespace icecore::cli
