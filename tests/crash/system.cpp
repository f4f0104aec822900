// The system calls that a store makes, and libpmem2, for files of the simulated machine; for all others the real ones.
//
// The linker leads the store's calls here (--wrap).
#include <fcntl.h>
#include <libpmem2.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
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

// Descriptors: one for all folders, one for the file that tells the boot, then for each opening one for each file,
// opened for writing, and one opened for reading.
constexpr unsigned files = machine::stores * icecore::crash::files_max;
constexpr int first_descriptor = icecore::crash::first_simulated_descriptor;
constexpr int folder_descriptor = first_descriptor;
constexpr int boot_descriptor = folder_descriptor + 1;
constexpr int first_of_file = boot_descriptor + 1;
constexpr unsigned of_opening = 2 * files;
constexpr unsigned openings_max = 1'000'000;  // then the numbers begin again

bool is_file(int descriptor) { return descriptor >= first_of_file; }
bool is_for_reading(int descriptor) { return static_cast<unsigned>(descriptor - first_of_file) % of_opening >= files; }
unsigned number_of(int descriptor) { return static_cast<unsigned>(descriptor - first_of_file) % files; }

int new_descriptor(unsigned number, bool for_reading) {
  static unsigned openings = 0;
  openings = (openings + 1) % openings_max;
  return first_of_file + static_cast<int>(openings * of_opening + (for_reading ? files : 0) + number);
}

/// A lock that an opening has: of flock(), or of a range.
struct kept_lock {
  int descriptor;
  bool is_whole;  // flock()
  bool is_alone;
  off_t from;
  off_t end;  // of a range; behind all others if it has none
};
std::vector<kept_lock> locks;

bool meet(const kept_lock& a, const kept_lock& b) {
  return number_of(a.descriptor) == number_of(b.descriptor) && a.is_whole == b.is_whole &&
         (a.is_whole || (a.from < b.end && b.from < a.end));
}
const kept_lock* in_the_way_of(const kept_lock& wanted) {
  for (const kept_lock& k : locks) {
    if (k.descriptor != wanted.descriptor && (k.is_alone || wanted.is_alone) && meet(k, wanted)) return &k;
  }
  return nullptr;
}
/// What an opening has there, it has no more; of a lock that is larger, the rest stays.
void unlock(const kept_lock& there) {
  std::vector<kept_lock> left;
  for (const kept_lock& k : locks) {
    if (k.descriptor != there.descriptor || !meet(k, there)) {
      left.push_back(k);
      continue;
    }
    if (k.is_whole) continue;
    if (k.from < there.from) left.push_back({k.descriptor, false, k.is_alone, k.from, there.from});
    if (there.end < k.end) left.push_back({k.descriptor, false, k.is_alone, there.end, k.end});
  }
  locks = std::move(left);
}
int take(const kept_lock& wanted, int failed) {
  if (in_the_way_of(wanted) != nullptr) return errno = failed, -1;
  unlock(wanted);
  locks.push_back(wanted);
  return 0;
}
int lock_range(int descriptor, int command, struct flock& asked) {
  constexpr off_t behind_all = std::numeric_limits<off_t>::max();
  const off_t end = asked.l_len == 0 ? behind_all : asked.l_start + asked.l_len;
  const kept_lock wanted{descriptor, false, asked.l_type == F_WRLCK, asked.l_start, end};
  if (command == F_OFD_GETLK) {
    const kept_lock* const other = in_the_way_of(wanted);
    asked.l_type = F_UNLCK;
    if (other == nullptr) return 0;
    asked.l_type = other->is_alone ? F_WRLCK : F_RDLCK;
    asked.l_start = other->from;
    asked.l_len = other->end == behind_all ? 0 : other->end - other->from;
    return 0;
  }
  if (asked.l_type != F_UNLCK) return take(wanted, EAGAIN);
  unlock(wanted);
  return 0;
}
unsigned store_of(unsigned number) { return number / icecore::crash::files_max; }
unsigned in_store(unsigned number) { return number % icecore::crash::files_max; }
simulated_file& numbered(unsigned number) { return machine::get().file(store_of(number), in_store(number)); }
simulated_file& file_of(int descriptor) { return numbered(number_of(descriptor)); }

/// An event of a file of the recorded store.
void note(unsigned number, event::kind what, std::uint64_t value = 0) {
  if (store_of(number) != machine::recorded) return;
  machine::get().note({what, 0, 0, in_store(number) * icecore::crash::file_apart, value});
}

/// A store that is being repaired has a name of its own until it is whole: here it is the same file.
std::string_view without_suffix(std::string_view path) {
  constexpr std::string_view suffix = ".repairing";
  if (path.ends_with(suffix)) path.remove_suffix(suffix.size());
  return path;
}

int simulated_open(std::string_view path, int flags) {
  path = without_suffix(path);
  for (unsigned of = 0; of < machine::stores; ++of) {
    if (path == machine::folder(of)) return folder_descriptor;
  }
  for (unsigned i = 0; i < files; ++i) {
    if (path != machine::path(store_of(i), in_store(i))) continue;
    simulated_file& f = numbered(i);
    if (f.exists() && (flags & O_EXCL) != 0) return errno = EEXIST, -1;
    if (!f.exists() && (flags & O_CREAT) == 0) return errno = ENOENT, -1;
    if (!f.exists()) note(i, event::kind::resize);
    f.create();
    return new_descriptor(i, (flags & O_ACCMODE) == O_RDONLY);
  }
  return errno = ENOENT, -1;
}

int sync(int descriptor) {
  log_pending_store();
  const unsigned number = number_of(descriptor);
  if (store_of(number) != machine::recorded) return 0;
  machine::get().compare();
  note(number, event::kind::sync_begin);
  fibers::point(&file_of(descriptor), true);
  note(number, event::kind::sync_end);
  return 0;
}

constexpr std::uint64_t device_bytes = simulated_file::size_max / 2;

/// What a store opened for reading maps: a copy of its own, so that what it changes there is no change of the file.
struct private_view {
  std::byte* base;
  std::uint64_t touched;  // everything from here on is zero
  bool used;
};
std::vector<private_view> views;  // kept from one opening to the next

private_view* view_at(const void* address) {
  for (private_view& v : views) {
    if (v.base == address) return &v;
  }
  return nullptr;
}

std::byte* take_view() {
  for (private_view& v : views) {
    if (v.used) continue;
    v.used = true;
    return v.base;
  }
  views.push_back({icecore::crash::memory_for_files(simulated_file::size_max), 0, true});
  return views.back().base;
}

void give_back(private_view& v) {
  std::memset(v.base, 0, v.touched);
  v.touched = 0;
  v.used = false;
}

bool is_file_memory(const void* at) {
  const auto offset = static_cast<const std::byte*>(at) - numbered(0).base();
  return offset >= 0 && static_cast<std::uint64_t>(offset) < files * simulated_file::size_max;
}

}  // namespace

namespace icecore::crash {

/// Without a wish the place where the file is in memory, or for reading a view of its own; then it is filled there.
void* map_simulated(void* wish, std::size_t size, int descriptor, off_t offset, bool is_shared) {
  const bool is_apart = is_for_reading(descriptor) && !is_shared;
  if (wish == nullptr) return is_apart ? take_view() : file_of(descriptor).base();
  private_view* v = view_at(static_cast<std::byte*>(wish) - offset);
  if (v == nullptr) return wish;
  const auto bytes = file_of(descriptor).bytes();
  const auto from = std::min<std::size_t>(static_cast<std::size_t>(offset), bytes.size());
  const std::size_t end = std::min(static_cast<std::size_t>(offset) + size, bytes.size());
  std::memcpy(v->base + from, bytes.data() + from, end - from);
  v->touched = std::max<std::uint64_t>(v->touched, end);
  return wish;
}

bool unmap_simulated(void* at) {
  if (private_view* v = view_at(at)) return give_back(*v), true;
  return is_file_memory(at);
}

}  // namespace icecore::crash

extern "C" {

int __real_open(const char*, int, ...);
int __real_close(int);
ssize_t __real_read(int, void*, std::size_t);
ssize_t __real_pread(int, void*, std::size_t, off_t);
ssize_t __real_pwrite(int, const void*, std::size_t, off_t);
off_t __real_lseek(int, off_t, int);
int __real_fcntl(int, int, ...);
int __real_fstat(int, struct stat*);
int __real_fstatfs(int, struct statfs*);
int __real_fstatvfs(int, struct statvfs*);
int __real_statx(int, const char*, int, unsigned, struct statx*);
int __real_posix_fallocate(int, off_t, off_t);
int __real_fallocate(int, int, off_t, off_t);
int __real_flock(int, int);
int __real_ftruncate(int, off_t);
int __real_fdatasync(int);
int __real_fsync(int);
int __real_unlink(const char*);
int __real_renameat2(int, const char*, int, const char*, unsigned);
int __real_madvise(void*, std::size_t, int);
int __real_gethostname(char*, std::size_t);
ssize_t __real_getrandom(void*, std::size_t, unsigned);
int __real_nanosleep(const timespec*, timespec*);
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

int __wrap_close(int descriptor) {
  if (descriptor < first_descriptor) return __real_close(descriptor);
  std::erase_if(locks, [descriptor](const kept_lock& k) { return k.descriptor == descriptor; });
  return 0;
}

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

/// Seen as the copy that it is.
ssize_t __wrap_pwrite(int descriptor, const void* from, std::size_t size, off_t offset) {
  if (!is_file(descriptor)) return __real_pwrite(descriptor, from, size, offset);
  simulated_file& f = file_of(descriptor);
  if (static_cast<std::uint64_t>(offset) + size > f.size()) return errno = EFBIG, -1;  // a store grows its files first
  std::memcpy(f.base() + offset, from, size);
  return static_cast<ssize_t>(size);
}

off_t __wrap_lseek(int descriptor, off_t offset, int whence) {
  if (!is_file(descriptor)) return __real_lseek(descriptor, offset, whence);
  if (whence == SEEK_DATA && static_cast<std::uint64_t>(offset) < file_of(descriptor).size())
    return offset;  // no holes
  errno = ENXIO;
  return -1;
}

int __wrap_fcntl(int descriptor, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void* argument = va_arg(rest, void*);
  va_end(rest);
  if (is_file(descriptor) && machine::get().locks())
    return lock_range(descriptor, command, *static_cast<struct flock*>(argument));
  if (is_file(descriptor)) {  // one process only, so every lock is given and none is in the way
    if (command == F_OFD_GETLK) static_cast<struct flock*>(argument)->l_type = F_UNLCK;
    return 0;
  }
  return __real_fcntl(descriptor, command, argument);
}

int __wrap_fstat(int descriptor, struct stat* out) {
  if (!is_file(descriptor)) return __real_fstat(descriptor, out);
  *out = {};
  out->st_mode = S_IFREG | 0644;
  out->st_size = static_cast<off_t>(file_of(descriptor).size());
  out->st_ino = machine::inode + in_store(number_of(descriptor));
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
    note(number_of(descriptor), event::kind::resize, size);
  }
  return 0;
}

/// Of blocks that go back: zeros, which become durable as what a store writes does.
int __wrap_fallocate(int descriptor, int mode, off_t offset, off_t length) {
  if (!is_file(descriptor)) return __real_fallocate(descriptor, mode, offset, length);
  if (mode != (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)) return errno = EOPNOTSUPP, -1;
  std::byte* const begin = file_of(descriptor).base() + offset;
  for (off_t at = 0; at < length; at += 8) {
    std::uint64_t word;
    std::memcpy(&word, begin + at, sizeof word);
    if (word == 0) continue;
    std::memset(begin + at, 0, sizeof word);
    machine::get().stored_by_system(begin + at, sizeof word);
  }
  return 0;
}

int __wrap_flock(int descriptor, int operation) {
  if (!is_file(descriptor)) return __real_flock(descriptor, operation);
  if (!machine::get().locks()) return 0;  // one process only
  const kept_lock wanted{descriptor, true, (operation & LOCK_EX) != 0, 0, 0};
  if ((operation & LOCK_UN) == 0) return take(wanted, EWOULDBLOCK);
  unlock(wanted);
  return 0;
}

int __wrap_ftruncate(int descriptor, off_t length) {
  if (!is_file(descriptor)) return __real_ftruncate(descriptor, length);
  log_pending_store();
  const auto size = static_cast<std::uint64_t>(length);
  if (size == file_of(descriptor).size()) return 0;
  note(number_of(descriptor), event::kind::resize, size);
  file_of(descriptor).resize(size);
  return 0;
}

int __wrap_fdatasync(int descriptor) { return is_file(descriptor) ? sync(descriptor) : __real_fdatasync(descriptor); }

int __wrap_fsync(int descriptor) {
  if (is_file(descriptor)) return sync(descriptor);
  if (descriptor != folder_descriptor) return __real_fsync(descriptor);
  note(0, event::kind::directory_sync);
  return 0;
}

int __wrap_unlink(const char* path) {
  if (!std::string_view(path).starts_with(machine::root)) return __real_unlink(path);
  for (unsigned i = 0; i < files; ++i) {
    if (without_suffix(path) == machine::path(store_of(i), in_store(i))) numbered(i).remove();
  }
  return 0;
}

int __wrap_renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  if (std::string_view(from).starts_with(machine::root)) return 0;  // see without_suffix()
  return __real_renameat2(from_folder, from, to_folder, to, flags);
}

int __wrap_madvise(void* at, std::size_t size, int advice) {
  if (view_at(at) != nullptr || is_file_memory(at)) return 0;
  return __real_madvise(at, size, advice);
}

int __wrap_gethostname(char* name, std::size_t size) {
  const int result =
      machine::get().elsewhere() ? (std::snprintf(name, size, "elsewhere"), 0) : __real_gethostname(name, size);
  machine::get().stored_by_system(name, size);
  return result;
}

ssize_t __wrap_getrandom(void* to, std::size_t size, unsigned) {
  auto* bytes = static_cast<unsigned char*>(to);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(machine::get().random());
  return static_cast<ssize_t>(size);
}

/// In a recording the time passes at once, and others go on.
int __wrap_nanosleep(const timespec* time, timespec* left) {
  if (!machine::get().recording()) return __real_nanosleep(time, left);
  machine::get().pass(std::chrono::seconds(time->tv_sec) + std::chrono::nanoseconds(time->tv_nsec));
  fibers::point(nullptr, true);
  return 0;
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

// ---- libpmem2 ----

struct pmem2_source {
  int descriptor;
};
struct pmem2_config {
  std::size_t length = 0;
};
struct pmem2_map {
  std::size_t length;
};

namespace {
void simulated_flush(const void* data, std::size_t size) {
  log_pending_store();
  machine& m = machine::get();
  const auto offset = reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(numbered(0).base());
  const std::uint64_t n = offset / simulated_file::size_max;
  if (n >= icecore::crash::files_max) return;  // the recorded store's files are the first
  fibers::point(data, false);
  m.note({event::kind::flush, 0, 0, n * icecore::crash::file_apart + offset % simulated_file::size_max, size});
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
  return 0;
}
int pmem2_source_alignment(const pmem2_source*, std::size_t* alignment) {
  *alignment = 4096;
  return 0;
}
int pmem2_source_delete(pmem2_source** source) {
  delete *source;
  *source = nullptr;
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
int pmem2_config_set_length(pmem2_config* config, std::size_t length) {
  config->length = length;
  return 0;
}
int pmem2_config_set_sharing(pmem2_config*, pmem2_sharing_type) { return 0; }
int pmem2_map_new(pmem2_map** out, const pmem2_config* config, const pmem2_source* source) {
  if (config->length > file_of(source->descriptor).size()) return -EINVAL;
  *out = new pmem2_map{config->length};
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
