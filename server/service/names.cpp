#include "service/names.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "icecore/error.hpp"

namespace icecore::service {

void failed_call(const std::filesystem::path& where, const char* what, int number) {
  const errc code = number == ENOSPC || number == EDQUOT ? errc::no_space
                    : number == EACCES                   ? errc::permission
                                                         : errc::io;
  throw icecore::error(code, fmt::format("{}: {} failed: {}", where.native(), what, std::strerror(number)));
}

void keep_names_in(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) failed_call(folder, "open", errno);
  const int failed = ::fsync(descriptor) != 0 ? errno : 0;
  ::close(descriptor);
  if (failed != 0 && failed != EINVAL && failed != ENOTSUP) failed_call(folder, "fsync", failed);
}

}  // namespace icecore::service
