// A machine that fails as a test wants it: a library that is loaded before the C library's (LD_PRELOAD). The files in
// the folder $ICECORE_TEST_MACHINE say what is wrong, at any moment:
//
//   sync-fails      fsync, fdatasync and msync of what is written fail with EIO
//   device-full     no file grows: fallocate and ftruncate to a greater size fail with ENOSPC
//   free-bytes      its text is what statvfs says is free
//   clock-jump      its text is how many seconds the wall clock is ahead, or behind with a minus
//
// failing_machine.hpp sets it up. It needs no other library, and is not for programs with AddressSanitizer.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

std::string file(const char* name) {
  const char* folder = std::getenv("ICECORE_TEST_MACHINE");
  return folder == nullptr ? std::string() : std::string(folder) + "/" + name;
}
bool is_wrong(const char* name) { return ::access(file(name).c_str(), F_OK) == 0; }

/// The number in the file; false if there is no such file.
bool said(const char* name, long long& number) {
  const int open = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, file(name).c_str(), O_RDONLY | O_CLOEXEC, 0));
  if (open < 0) return false;
  char text[32] = {};
  const bool read = ::read(open, text, sizeof text - 1) > 0;
  ::close(open);
  if (read) number = std::atoll(text);
  return read;
}

int failed(int error) {
  errno = error;
  return -1;
}

/// As calls do: their return value, or -1 and errno.
template <typename... Arguments>
int call(long number, Arguments... arguments) {
  return static_cast<int>(::syscall(number, arguments...));
}

}  // namespace

extern "C" {

int fsync(int descriptor) { return is_wrong("sync-fails") ? failed(EIO) : call(SYS_fsync, descriptor); }
int fdatasync(int descriptor) { return is_wrong("sync-fails") ? failed(EIO) : call(SYS_fdatasync, descriptor); }
int msync(void* from, size_t bytes, int flags) {
  return is_wrong("sync-fails") ? failed(EIO) : call(SYS_msync, from, bytes, flags);
}

int posix_fallocate(int descriptor, off_t from, off_t bytes) {
  if (is_wrong("device-full")) return ENOSPC;
  return call(SYS_fallocate, descriptor, 0, from, bytes) == 0 ? 0 : errno;
}
int ftruncate(int descriptor, off_t bytes) noexcept {
  struct stat is {};
  const bool grows = ::fstat(descriptor, &is) == 0 && bytes > is.st_size;
  return grows && is_wrong("device-full") ? failed(ENOSPC) : call(SYS_ftruncate, descriptor, bytes);
}

int statvfs(const char* path, struct statvfs* into) noexcept {
  using function = int(const char*, struct statvfs*);
  static auto* const real = reinterpret_cast<function*>(::dlsym(RTLD_NEXT, "statvfs"));
  long long free_bytes = 0;
  const int done = real(path, into);
  if (done == 0 && said("free-bytes", free_bytes)) {
    into->f_frsize = 1;
    into->f_bavail = static_cast<fsblkcnt_t>(free_bytes);
  }
  return done;
}

int clock_gettime(clockid_t clock, timespec* into) noexcept {
  const int done = call(SYS_clock_gettime, clock, into);
  long long ahead = 0;
  if (done == 0 && clock == CLOCK_REALTIME && said("clock-jump", ahead)) into->tv_sec += ahead;
  return done;
}

}  // extern "C"
