#include "text/file_error.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "icecore/error.hpp"

namespace icecore::cli {

void fail_on_file(const std::string& path, std::string_view call) {
  const int number = errno;
  const bool denied = number == EACCES || number == EPERM || number == EROFS;
  const bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
  throw error(denied ? errc::permission
              : full ? errc::no_space
                     : errc::io,
              fmt::format("{}: {} failed: {}", path, call, std::strerror(number)));
}

}  // namespace icecore::cli
