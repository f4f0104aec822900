// Errors of files that are not stores.
#pragma once

#include <string>
#include <string_view>

namespace icecore::cli {

/// Throws the error in `errno` after a call on a file: errc::permission, errc::no_space, errc::io.
[[noreturn]] void fail_on_file(const std::string& path, std::string_view call);

}  // namespace icecore::cli
