#include "store/sharing/generations.hpp"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "base/raise.hpp"

namespace icecore::detail {

bool generation_view::set(short kind) const noexcept {
  struct flock l {};
  l.l_type = kind;
  l.l_whence = SEEK_SET;
  l.l_start = static_cast<off_t>(generation_bytes_from + number_);
  l.l_len = 1;
  return fcntl(locks_->get(), F_OFD_SETLK, &l) == 0;
}

generation_view::generation_view(std::shared_ptr<const lock_descriptor> locks, std::uint64_t number)
    : locks_(std::move(locks)), number_(number) {
  if (!set(F_RDLCK)) raise_errno(errno, "lock a generation of", "the file that the store is shared as");
}

generation_view::~generation_view() { static_cast<void>(set(F_UNLCK)); }

}  // namespace icecore::detail
