// Throwing icecore::error with a formatted message that says what failed, where, and what to do.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "icecore/error.hpp"

namespace icecore {

template <typename... Args>
[[noreturn]] void raise(errc code, fmt::format_string<Args...> format, Args&&... args) {
  throw error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws what a failed system call means: ENOSPC, EDQUOT and EFBIG are no_space, EACCES, EPERM and EROFS permission,
/// the rest io.
[[noreturn]] inline void raise_errno(int number, std::string_view call, std::string_view path) {
  errc code = errc::io;
  if (number == ENOSPC || number == EDQUOT || number == EFBIG) code = errc::no_space;
  if (number == EACCES || number == EPERM || number == EROFS) code = errc::permission;
  raise(code, "{}: {} failed: {}", path, call, std::strerror(number));
}

}  // namespace icecore
