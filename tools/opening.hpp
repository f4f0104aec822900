// Opening a store the way a verb needs it, and finding the version its arguments name.
#pragma once

#include <string>
#include <string_view>

#include "arguments.hpp"
#include "icecore/store.hpp"

namespace icecore::cli {

/// For reading: the file is not changed, and other readers may have it open too.
[[nodiscard]] store open_to_read(const std::string& path, const read_arguments& read = {});

/// For writing: `creation` says whether there must be one already.
[[nodiscard]] store open_to_write(const std::string& path, const write_arguments& write, creation creation);

/// The version that `text` names: "latest", a number, "tag:NAME", a tag's name, or the unique beginning (at least 4
/// characters) of one. errc::unknown_tag, with what to do.
[[nodiscard]] version version_named(const store& from, std::string_view text);

/// What --at and --at-time select.
[[nodiscard]] snapshot view_of(const store& from, const view_arguments& view);

}  // namespace icecore::cli
