#include "pool/root/boot.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "base/raise.hpp"
#include "pool/file/file.hpp"

namespace icecore {
namespace {

using boot_id = std::uint8_t[16];

// A random UUID has 4 in the upper half of this byte. Our numbers have a value that no UUID has, so the two differ.
constexpr std::size_t kind_at = 6;
constexpr std::uint8_t kind_mask = 0xf0;

bool is_known(const boot_id& id) noexcept {
  return std::any_of(std::begin(id), std::end(id), [](std::uint8_t b) { return b != 0; });
}
bool is_own(const boot_id& id) noexcept { return (id[kind_at] & kind_mask) == kind_mask; }

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

int open_kernels() noexcept { return ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC); }

bool read_kernels(boot_id& id) noexcept {
  const int file = open_kernels();
  if (file < 0) return false;
  char text[64];
  const ssize_t length = ::read(file, text, sizeof text);
  ::close(file);
  std::size_t digits = 0;
  for (ssize_t i = 0; i < length && digits < 2 * sizeof id; ++i) {
    const int d = hex_digit(text[i]);
    if (d < 0) continue;
    id[digits / 2] = static_cast<std::uint8_t>((id[digits / 2] << 4) | d);
    ++digits;
  }
  return digits == 2 * sizeof id && is_known(id);
}

struct own_file {
  char path[64];
  own_file() noexcept { std::snprintf(path, sizeof path, "/dev/shm/icecore-boot-%u", unsigned{geteuid()}); }
};

/// Rejects a file that another user could have written, or that survives a restart of the machine.
bool read_own(const own_file& name, boot_id& id) noexcept {
  const int file = ::open(name.path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return false;
  struct stat about {};
  const bool trusted = fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid() &&
                       (about.st_mode & (S_IWGRP | S_IWOTH)) == 0 && is_on_memory_filesystem(file);
  const bool complete = trusted && ::read(file, id, sizeof id) == ssize_t{sizeof id};
  ::close(file);
  return complete && is_own(id);
}

/// Gives the file its name once it is complete. If several processes make one at the same time, the first one's stays.
void make_own(const own_file& name) noexcept {
  boot_id id;
  if (getrandom(id, sizeof id, 0) != ssize_t{sizeof id}) return;
  id[kind_at] |= kind_mask;
  char making[sizeof name.path + 16];
  std::snprintf(making, sizeof making, "%s.%02x%02x%02x%02x", name.path, id[0], id[1], id[2], id[3]);
  const int file = ::open(making, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0400);
  if (file < 0) return;
  const bool complete = ::write(file, id, sizeof id) == ssize_t{sizeof id};
  ::close(file);
  if (complete) static_cast<void>(::link(making, name.path));
  ::unlink(making);
}

}  // namespace

void read_boot_id(boot_id& id) noexcept {
  std::memset(id, 0, sizeof id);
  if (read_kernels(id)) return;
  const own_file name;
  if (read_own(name, id)) return;
  make_own(name);
  if (!read_own(name, id)) std::memset(id, 0, sizeof id);
}

bool written_this_boot(const format::root& r) noexcept {
  boot_id now;
  read_boot_id(now);
  return is_known(now) && std::memcmp(now, r.boot_id, sizeof now) == 0;
}

bool written_in_another_boot(const format::root& r) noexcept {
  boot_id now;
  read_boot_id(now);
  const bool both_kernels = is_known(now) && is_known(r.boot_id) && !is_own(now) && !is_own(r.boot_id);
  return both_kernels && std::memcmp(now, r.boot_id, sizeof now) != 0;
}

void require_boot_to_be_told(std::string_view of) {
  const int file = open_kernels();
  if (file >= 0) {
    ::close(file);
  } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
    raise_errno(errno, "open of the kernel's boot_id", of);
  }
}

}  // namespace icecore
