// Which version a name means: the one grammar of every verb that takes a version.
//
//   name              version
//   latest            the present
//   17                the version of this number
//   tag:NAME          the tag of this name, whatever the name looks like; or the only tag whose name begins so
//   NAME              the tag of this name
//   NAME~N            of the tags of versions before NAME, the N-th newest; NAME~ is NAME~1
//   time:TIME, TIME   the newest tag that is not later than this time (time.hpp)
//   NAME              the only tag whose name begins so: at least 4 characters
//
// The first line that fits decides, from top to bottom. So a tag named "latest" or "17" is reached as tag:latest and
// tag:17, and a tag named "2026-11-20" goes before the time, which is then reached as time:2026-11-20.
#pragma once

#include <string>
#include <string_view>

#include "icecore/store.hpp"
#include "line/arguments.hpp"

namespace icecore::cli {

/// The version that `text` names. errc::unknown_tag, errc::version_not_closed, errc::invalid_argument (a time that is
/// none) say what to do.
/// Cost: O(tags); of latest~N also what was written since the newest tag, or O(keys).
[[nodiscard]] version version_named(const store& from, std::string_view text);

/// The version that --at and --at-time select.
[[nodiscard]] snapshot view_of(const store& from, const view_arguments& view);

}  // namespace icecore::cli
