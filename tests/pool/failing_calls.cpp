#include "failing_calls.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <libpmem2.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <string>

namespace {

struct {
  std::string_view name;
  int error = 0;
  icecore::testing::which_calls which;
} failing;

unsigned long filesystem_magic = 0;
bool is_dax = false;
std::string boot_memory;  // empty: the kernel reports the boot

/// The path that replaces `path` while the boot is hidden.
std::string led(const char* path) {
  constexpr std::string_view own = "/dev/shm/icecore-boot-";
  const std::string_view asked(path);
  if (boot_memory.empty()) return path;
  if (asked == "/proc/sys/kernel/random/boot_id") return boot_memory + "/there is none";
  return asked.starts_with(own) ? boot_memory + std::string(asked.substr(std::strlen("/dev/shm"))) : path;
}

/// The error with which this call must fail; 0: make the call.
int failure_of(std::string_view name) {
  if (name != failing.name || failing.which.times <= 0) return 0;
  if (failing.which.after-- > 0) return 0;
  --failing.which.times;
  return failing.error;
}

/// The function that the one in this program hides.
template <class Function>
Function* hidden(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int fails_with_errno(std::string_view name) {
  const int error = failure_of(name);
  if (error != 0) errno = error;
  return error;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  if (fails_with_errno("open") != 0) return -1;
  va_list more;
  va_start(more, flags);
  const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(more, unsigned) : 0;
  va_end(more);
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, led(path).c_str(), flags, mode));
}

int link(const char* from, const char* to) noexcept {
  return static_cast<int>(syscall(SYS_linkat, AT_FDCWD, led(from).c_str(), AT_FDCWD, led(to).c_str(), 0));
}

int unlink(const char* path) noexcept {
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, led(path).c_str(), 0));
}

int fcntl(int descriptor, int command, ...) {
  va_list more;
  va_start(more, command);
  void* const argument = va_arg(more, void*);
  va_end(more);
  if (fails_with_errno("fcntl") != 0) return -1;
  return static_cast<int>(syscall(SYS_fcntl, descriptor, command, argument));
}

int fstat(int descriptor, struct stat* about) noexcept {
  if (fails_with_errno("fstat") != 0) return -1;
  return static_cast<int>(syscall(SYS_fstat, descriptor, about));
}

int fstatvfs(int descriptor, struct statvfs* about) noexcept {
  if (fails_with_errno("fstatvfs") != 0) return -1;
  return hidden<int(int, struct statvfs*)>("fstatvfs")(descriptor, about);
}

int fstatfs(int descriptor, struct statfs* about) noexcept {
  const auto result = static_cast<int>(syscall(SYS_fstatfs, descriptor, about));
  if (result == 0 && filesystem_magic != 0) about->f_type = static_cast<decltype(about->f_type)>(filesystem_magic);
  return result;
}

int statx(int directory, const char* path, int flags, unsigned mask, struct statx* about) noexcept {
  if (fails_with_errno("statx") != 0) return -1;
  const auto result = static_cast<int>(syscall(SYS_statx, directory, path, flags, mask, about));
  if (result == 0 && is_dax) {
    about->stx_attributes |= STATX_ATTR_DAX;
    about->stx_attributes_mask |= STATX_ATTR_DAX;
  }
  return result;
}

ssize_t pread(int descriptor, void* into, size_t size, off_t offset) {
  if (fails_with_errno("pread") != 0) return -1;
  return syscall(SYS_pread64, descriptor, into, size, offset);
}

int fsync(int descriptor) {
  if (fails_with_errno("fsync") != 0) return -1;
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

int fdatasync(int descriptor) {
  if (fails_with_errno("fdatasync") != 0) return -1;
  return static_cast<int>(syscall(SYS_fdatasync, descriptor));
}

int pthread_create(pthread_t* made, const pthread_attr_t* how, void* (*work)(void*), void* argument) noexcept {
  using function = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (const int error = failure_of("pthread_create"); error != 0) return error;
  return hidden<function>("pthread_create")(made, how, work, argument);
}

int fallocate(int descriptor, int mode, off_t offset, off_t size) {
  if (fails_with_errno("fallocate") != 0) return -1;
  return static_cast<int>(syscall(SYS_fallocate, descriptor, mode, offset, size));
}

int posix_fallocate(int descriptor, off_t offset, off_t size) {
  if (const int error = failure_of("posix_fallocate"); error != 0) return error;
  return syscall(SYS_fallocate, descriptor, 0, offset, size) == 0 ? 0 : errno;
}

ssize_t getrandom(void* into, size_t size, unsigned flags) {
  if (fails_with_errno("getrandom") != 0) return -1;
  return syscall(SYS_getrandom, into, size, flags);
}

int pmem2_map_new(pmem2_map** map, const pmem2_config* config, const pmem2_source* source) {
  if (const int error = failure_of("pmem2_map_new"); error != 0) return error;
  return hidden<int(pmem2_map**, const pmem2_config*, const pmem2_source*)>("pmem2_map_new")(map, config, source);
}

}  // extern "C"

namespace icecore::testing {

failing_call::failing_call(std::string_view name, int error, which_calls which) { failing = {name, error, which}; }
failing_call::~failing_call() { failing = {}; }

fake_filesystem::fake_filesystem(unsigned long magic) { filesystem_magic = magic; }
fake_filesystem::~fake_filesystem() { filesystem_magic = 0; }

fake_dax::fake_dax() { is_dax = true; }
fake_dax::~fake_dax() { is_dax = false; }

hidden_boot::hidden_boot(const std::filesystem::path& memory) { boot_memory = memory; }
hidden_boot::~hidden_boot() { boot_memory.clear(); }

}  // namespace icecore::testing
