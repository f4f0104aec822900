// stats() reads smaps_rollup, for which the kernel counts all pages of the process: longer than an execution takes.
#include <dlfcn.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

extern "C" FILE* fopen64(const char* path, const char* mode) {
  using function = FILE* (*)(const char*, const char*);
  static const auto next = reinterpret_cast<function>(dlsym(RTLD_NEXT, "fopen64"));
  if (std::strcmp(path, "/proc/self/smaps_rollup") == 0) {
    errno = ENOENT;
    return nullptr;
  }
  return next(path, mode);
}
