// System calls whose cost tells a fuzzer nothing take the C library's place in these programs: a memory file needs no
// sync and no blocks allocated ahead, a store of 128 KiB needs no second thread and no gigabytes of addresses.
#include <dlfcn.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

struct fuzzed_folder_walk;

extern "C" {

int fdatasync(int) { return 0; }
int fsync(int) { return 0; }

/// The file gets its length; the memory file system finds pages when they are touched.
int posix_fallocate(int descriptor, off_t offset, off_t length) {
  struct stat s {};
  if (fstat(descriptor, &s) != 0) return errno;
  if (s.st_size >= offset + length) return 0;
  return ftruncate(descriptor, offset + length) == 0 ? 0 : errno;
}

/// One core: nothing starts threads that have a hundred records to read.
int sched_getaffinity(pid_t, size_t size, cpu_set_t* cores) noexcept {
  std::memset(cores, 0, size);
  CPU_SET(0, cores);
  return 0;
}

/// The size of the device is not known, so few addresses are reserved.
int fstatvfs(int, struct statvfs*) noexcept {
  errno = ENOSYS;
  return -1;
}

/// libpmem2 looks for persistent memory in /sys at each mapping.
struct fuzzed_folder_walk* fts_open(char* const*, int, int (*)(const void*, const void*)) {
  errno = ENOENT;
  return nullptr;
}

/// stats() reads smaps_rollup, for which the kernel counts all pages of the process.
FILE* fopen64(const char* path, const char* mode) {
  using function = FILE* (*)(const char*, const char*);
  static const auto next = reinterpret_cast<function>(dlsym(RTLD_NEXT, "fopen64"));
  if (std::strcmp(path, "/proc/self/smaps_rollup") == 0) {
    errno = ENOENT;
    return nullptr;
  }
  return next(path, mode);
}

}  // extern "C"
