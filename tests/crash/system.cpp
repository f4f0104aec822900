// The system calls that a store makes, and libpmem2, for files of the simulated machine; for all others the real ones.
//
// The linker leads the store's calls here (--wrap). Locks of the C library are replaced as a whole, since fibers of one
// thread would wait for each other for ever.
#include <dlfcn.h>
#include <fcntl.h>
#include <libpmem2.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "fibers.hpp"
#include "machine.hpp"

using icecore::crash::device;
using icecore::crash::event;
using icecore::crash::fibers;
using icecore::crash::log_pending_store;
using icecore::crash::machine;
using icecore::crash::simulated_file;

namespace {

// Descriptors: one for each file, one for the folder, one for the file that tells the boot.
constexpr int first_descriptor = 1'000'000;
constexpr int folder_descriptor = first_descriptor + machine::files;
constexpr int boot_descriptor = folder_descriptor + 1;

bool is_file(int descriptor) {
  return descriptor >= first_descriptor && descriptor < first_descriptor + static_cast<int>(machine::files);
}
unsigned number_of(int descriptor) { return static_cast<unsigned>(descriptor - first_descriptor); }
simulated_file& file_of(int descriptor) { return machine::get().file(number_of(descriptor)); }

/// An event of the recorded file.
void note(int descriptor, event::kind what, std::uint64_t offset = 0, std::uint64_t value = 0) {
  if (number_of(descriptor) == machine::recorded) machine::get().note({what, 0, 0, offset, value});
}

int simulated_open(std::string_view path, int flags) {
  machine& m = machine::get();
  if (path == machine::root) return folder_descriptor;
  for (unsigned i = 0; i < machine::files; ++i) {
    if (path != machine::path(i)) continue;
    simulated_file& f = m.file(i);
    if (f.exists() && (flags & O_EXCL) != 0) return errno = EEXIST, -1;
    if (!f.exists() && (flags & O_CREAT) == 0) return errno = ENOENT, -1;
    f.create();
    return first_descriptor + static_cast<int>(i);
  }
  return errno = ENOENT, -1;
}

int sync(int descriptor) {
  log_pending_store();
  if (number_of(descriptor) != machine::recorded) return 0;
  machine::get().compare();
  note(descriptor, event::kind::sync_begin);
  fibers::point(&file_of(descriptor), true);
  note(descriptor, event::kind::sync_end);
  return 0;
}

constexpr std::uint64_t device_bytes = simulated_file::size_max / 2;

}  // namespace

extern "C" {

int __real_open(const char*, int, ...);
int __real_close(int);
ssize_t __real_read(int, void*, std::size_t);
ssize_t __real_pread(int, void*, std::size_t, off_t);
int __real_fcntl(int, int, ...);
int __real_fstat(int, struct stat*);
int __real_fstatfs(int, struct statfs*);
int __real_fstatvfs(int, struct statvfs*);
int __real_statx(int, const char*, int, unsigned, struct statx*);
int __real_posix_fallocate(int, off_t, off_t);
int __real_ftruncate(int, off_t);
int __real_fdatasync(int);
int __real_fsync(int);
int __real_unlink(const char*);
int __real_madvise(void*, std::size_t, int);
int __real_gethostname(char*, std::size_t);
ssize_t __real_getrandom(void*, std::size_t, unsigned);
int __real_sched_yield();

int __wrap_open(const char* path, int flags, ...) {
  const std::string_view name(path);
  if (name.starts_with(machine::root)) return simulated_open(name, flags);
  if (name == "/proc/sys/kernel/random/boot_id") return boot_descriptor;
  va_list rest;
  va_start(rest, flags);
  const auto mode = va_arg(rest, unsigned);
  va_end(rest);
  return __real_open(path, flags, mode);
}

int __wrap_close(int descriptor) { return descriptor >= first_descriptor ? 0 : __real_close(descriptor); }

ssize_t __wrap_read(int descriptor, void* to, std::size_t size) {
  if (descriptor != boot_descriptor) return __real_read(descriptor, to, size);
  return std::snprintf(static_cast<char*>(to), size, "%032llx", static_cast<unsigned long long>(machine::get().boot()));
}

ssize_t __wrap_pread(int descriptor, void* to, std::size_t size, off_t offset) {
  if (!is_file(descriptor)) return __real_pread(descriptor, to, size, offset);
  const auto bytes = file_of(descriptor).bytes();
  const auto from = std::min<std::size_t>(static_cast<std::size_t>(offset), bytes.size());
  const std::size_t count = std::min(size, bytes.size() - from);
  std::memcpy(to, bytes.data() + from, count);
  return static_cast<ssize_t>(count);
}

int __wrap_fcntl(int descriptor, int command, ...) {
  if (is_file(descriptor)) return 0;  // locks: one process only
  va_list rest;
  va_start(rest, command);
  void* argument = va_arg(rest, void*);
  va_end(rest);
  return __real_fcntl(descriptor, command, argument);
}

int __wrap_fstat(int descriptor, struct stat* out) {
  if (!is_file(descriptor)) return __real_fstat(descriptor, out);
  *out = {};
  out->st_mode = S_IFREG | 0644;
  out->st_size = static_cast<off_t>(file_of(descriptor).size());
  out->st_ino = 7;  // both files are the one file, before and after the crash
  return 0;
}

int __wrap_fstatfs(int descriptor, struct statfs* out) {
  if (!is_file(descriptor)) return __real_fstatfs(descriptor, out);
  *out = {};
  out->f_type = EXT4_SUPER_MAGIC;
  return 0;
}

int __wrap_fstatvfs(int descriptor, struct statvfs* out) {
  if (!is_file(descriptor)) return __real_fstatvfs(descriptor, out);
  *out = {};
  out->f_frsize = 4096;
  out->f_blocks = device_bytes / 4096;
  return 0;
}

int __wrap_statx(int descriptor, const char* path, int flags, unsigned mask, struct statx* out) {
  if (!is_file(descriptor)) return __real_statx(descriptor, path, flags, mask, out);
  *out = {};
  out->stx_attributes_mask = STATX_ATTR_DAX;
  out->stx_attributes = machine::get().kind() == device::persistent_memory ? STATX_ATTR_DAX : 0;
  return 0;
}

int __wrap_posix_fallocate(int descriptor, off_t offset, off_t length) {
  if (!is_file(descriptor)) return __real_posix_fallocate(descriptor, offset, length);
  const auto size = static_cast<std::uint64_t>(offset + length);
  if (size > device_bytes) return ENOSPC;
  if (size > file_of(descriptor).size()) {
    file_of(descriptor).resize(size);
    note(descriptor, event::kind::resize, 0, size);
  }
  return 0;
}

int __wrap_ftruncate(int descriptor, off_t length) {
  if (!is_file(descriptor)) return __real_ftruncate(descriptor, length);
  log_pending_store();
  const auto size = static_cast<std::uint64_t>(length);
  if (size == file_of(descriptor).size()) return 0;
  note(descriptor, event::kind::resize, 0, size);
  file_of(descriptor).resize(size);
  return 0;
}

int __wrap_fdatasync(int descriptor) { return is_file(descriptor) ? sync(descriptor) : __real_fdatasync(descriptor); }

int __wrap_fsync(int descriptor) {
  if (is_file(descriptor)) return sync(descriptor);
  if (descriptor != folder_descriptor) return __real_fsync(descriptor);
  note(first_descriptor, event::kind::directory_sync);
  return 0;
}

int __wrap_unlink(const char* path) {
  if (!std::string_view(path).starts_with(machine::root)) return __real_unlink(path);
  for (unsigned i = 0; i < machine::files; ++i) {
    if (path == machine::path(i)) machine::get().file(i).remove();
  }
  return 0;
}

int __wrap_madvise(void* at, std::size_t size, int advice) {
  for (unsigned i = 0; i < machine::files; ++i) {
    const auto offset = static_cast<std::byte*>(at) - machine::get().file(i).base();
    if (offset >= 0 && static_cast<std::uint64_t>(offset) < simulated_file::size_max) return 0;
  }
  return __real_madvise(at, size, advice);
}

int __wrap_gethostname(char* name, std::size_t size) {
  const int result = __real_gethostname(name, size);
  machine::get().stored_by_system(name, size);
  return result;
}

ssize_t __wrap_getrandom(void* to, std::size_t size, unsigned) {
  auto* bytes = static_cast<unsigned char*>(to);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(machine::get().random());
  return static_cast<ssize_t>(size);
}

int __wrap_sched_yield() {
  if (!fibers::active()) return __real_sched_yield();
  fibers::point(nullptr, true);
  return 0;
}

/// One core: what opens an image needs no threads of its own.
int __wrap_sched_getaffinity(pid_t, std::size_t size, cpu_set_t* set) {
  std::memset(set, 0, size);
  CPU_SET(0, set);
  return 0;
}

// ---- Memory of stores that are opened to be judged: kept from one to the next, which saves most of their time ----

}  // extern "C"

namespace {

struct kept_mapping {
  std::byte* at;
  std::size_t bytes;
  std::size_t writable;  // bytes from its start that were ever made writable
  bool used;
};
std::vector<kept_mapping> kept;

// By number: where these are themselves led elsewhere, their names would lead back.
void* real_mmap(void* wish, std::size_t bytes, int protection, int flags, int descriptor, off_t offset) {
  return reinterpret_cast<void*>(syscall(SYS_mmap, wish, bytes, protection, flags, descriptor, offset));
}

kept_mapping* kept_around(const void* at) {
  for (kept_mapping& k : kept) {
    if (at >= k.at && at < k.at + k.bytes) return &k;
  }
  return nullptr;
}

}  // namespace

extern "C" {

void* __wrap_mmap(void* wish, std::size_t bytes, int protection, int flags, int descriptor, off_t offset) {
  const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (wish != nullptr || flags != kind) return real_mmap(wish, bytes, protection, flags, descriptor, offset);
  for (kept_mapping& k : kept) {
    if (k.used || k.bytes != bytes) continue;
    k.used = true;
    return k.at;
  }
  void* at = real_mmap(nullptr, bytes, protection, flags, -1, 0);
  const bool writable = (protection & PROT_WRITE) != 0;
  if (at != MAP_FAILED) kept.push_back({static_cast<std::byte*>(at), bytes, writable ? bytes : 0, true});
  return at;
}

int __wrap_mprotect(void* at, std::size_t bytes, int protection) {
  kept_mapping* k = kept_around(at);
  if (k == nullptr) return static_cast<int>(syscall(SYS_mprotect, at, bytes, protection));
  const auto end = static_cast<std::size_t>(static_cast<std::byte*>(at) + bytes - k->at);
  if (end <= k->writable) return 0;
  k->writable = end;
  return static_cast<int>(syscall(SYS_mprotect, at, bytes, protection));
}

int __wrap_munmap(void* at, std::size_t bytes) {
  kept_mapping* k = kept_around(at);
  if (k == nullptr) return static_cast<int>(syscall(SYS_munmap, at, bytes));
  k->used = false;
  constexpr std::size_t cheaper_to_drop = std::size_t{4} << 20;
  if (k->writable > cheaper_to_drop) return madvise(k->at, k->writable, MADV_DONTNEED);
  std::memset(k->at, 0, k->writable);
  return 0;
}

// ---- Locks ----

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using function = int (*)(pthread_mutex_t*);
  static const auto lock = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  static const auto try_lock = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_mutex_trylock"));
  if (!fibers::active()) return lock(mutex);
  fibers::point(mutex, true);
  while (try_lock(mutex) != 0) fibers::block(mutex);
  return 0;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  using function = int (*)(pthread_mutex_t*);
  static const auto unlock = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_mutex_unlock"));
  const int result = unlock(mutex);
  if (fibers::active()) fibers::wake(mutex);
  return result;
}

// Waking without a reason is allowed: whoever waits looks again.
int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  using function = int (*)(pthread_cond_t*, pthread_mutex_t*);
  static const auto wait = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_cond_wait"));
  if (!fibers::active()) return wait(condition, mutex);
  pthread_mutex_unlock(mutex);
  fibers::point(nullptr, true);
  return pthread_mutex_lock(mutex);
}

// ---- libpmem2 ----

struct pmem2_source {
  int descriptor;
};
struct pmem2_vm_reservation {
  std::byte* address;
  int descriptor;
};
struct pmem2_config {
  std::size_t offset = 0;
  std::size_t length = 0;
  pmem2_sharing_type sharing = PMEM2_SHARED;
  pmem2_vm_reservation* reservation = nullptr;
};
struct pmem2_map {
  bool shared;
};

namespace {
int source_to_reserve_for = 0;

void simulated_flush(const void* data, std::size_t size) {
  log_pending_store();
  machine& m = machine::get();
  const auto offset = static_cast<const std::byte*>(data) - m.file(machine::recorded).base();
  if (offset < 0 || static_cast<std::uint64_t>(offset) >= simulated_file::size_max) return;
  fibers::point(data, false);
  m.note({event::kind::flush, 0, 0, static_cast<std::uint64_t>(offset), size});
}
void simulated_drain() {
  log_pending_store();
  machine& m = machine::get();
  if (!m.recording()) return;
  fibers::point(nullptr, false);
  m.compare();
  m.note({event::kind::fence, 0, 0, 0, 0});
}
}  // namespace

int pmem2_source_from_fd(pmem2_source** out, int descriptor) {
  *out = new pmem2_source{descriptor};
  source_to_reserve_for = descriptor;
  return 0;
}
int pmem2_source_delete(pmem2_source** source) {
  delete *source;
  *source = nullptr;
  return 0;
}
int pmem2_vm_reservation_new(pmem2_vm_reservation** out, void*, std::size_t) {
  *out = new pmem2_vm_reservation{file_of(source_to_reserve_for).base(), source_to_reserve_for};
  return 0;
}
void* pmem2_vm_reservation_get_address(pmem2_vm_reservation* reservation) { return reservation->address; }
int pmem2_vm_reservation_delete(pmem2_vm_reservation** reservation) {
  delete *reservation;
  *reservation = nullptr;
  return 0;
}
int pmem2_config_new(pmem2_config** out) {
  *out = new pmem2_config;
  return 0;
}
int pmem2_config_delete(pmem2_config** config) {
  delete *config;
  *config = nullptr;
  return 0;
}
int pmem2_config_set_required_store_granularity(pmem2_config*, pmem2_granularity) { return 0; }
int pmem2_config_set_offset(pmem2_config* config, std::size_t offset) {
  config->offset = offset;
  return 0;
}
int pmem2_config_set_length(pmem2_config* config, std::size_t length) {
  config->length = length;
  return 0;
}
int pmem2_config_set_sharing(pmem2_config* config, pmem2_sharing_type sharing) {
  config->sharing = sharing;
  return 0;
}
int pmem2_config_set_vm_reservation(pmem2_config* config, pmem2_vm_reservation* reservation, std::size_t) {
  config->reservation = reservation;
  return 0;
}
int pmem2_map_new(pmem2_map** out, const pmem2_config* config, const pmem2_source* source) {
  if (config->offset + config->length > file_of(source->descriptor).size()) return -EINVAL;
  *out = new pmem2_map{config->sharing == PMEM2_SHARED};
  return 0;
}
int pmem2_map_delete(pmem2_map** map) {
  delete *map;
  *map = nullptr;
  return 0;
}
pmem2_granularity pmem2_map_get_store_granularity(pmem2_map*) {
  return machine::get().kind() == device::persistent_memory ? PMEM2_GRANULARITY_CACHE_LINE : PMEM2_GRANULARITY_PAGE;
}
pmem2_flush_fn pmem2_get_flush_fn(pmem2_map*) { return simulated_flush; }
pmem2_drain_fn pmem2_get_drain_fn(pmem2_map*) { return simulated_drain; }
const char* pmem2_errormsg() { return "simulated"; }

}  // extern "C"
