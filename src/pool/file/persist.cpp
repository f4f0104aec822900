#include "pool/file/persist.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/raise.hpp"
#include "pool/file/cache_lines.hpp"
#include "pool/format.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace icecore {
namespace {

// Our own flush of cache lines, only for memory file systems: libpmem2 takes these for page media and would call msync.
// On real persistent memory libpmem2's functions are used.
#if defined(__x86_64__)
// the instructions are assembly: an intrinsic would need its whole call chain compiled for a newer processor
void flush_clwb(const void* data, std::size_t size) {
  for_each_cache_line(data, size, [](char* line) { asm volatile("clwb %0" : "+m"(*line)); });
}
void flush_clflushopt(const void* data, std::size_t size) {
  for_each_cache_line(data, size, [](char* line) { asm volatile("clflushopt %0" : "+m"(*line)); });
}
void flush_clflush(const void* data, std::size_t size) {
  for_each_cache_line(data, size, [](char* line) { _mm_clflush(line); });
}
void drain_sfence() { _mm_sfence(); }

struct emulation {
  pmem2_flush_fn flush;
  const char* name;
};

emulation find_best_line_flush() noexcept {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
    if ((b & (1U << 24)) != 0) return {flush_clwb, "clwb"};
    if ((b & (1U << 23)) != 0) return {flush_clflushopt, "clflushopt"};
  }
  return {flush_clflush, "clflush"};
}
/// Computed once: on a virtual machine the host answers CPUID, which takes as long as opening a small store.
emulation best_line_flush() noexcept {
  static const emulation best = find_best_line_flush();
  return best;
}
#else
void drain_sfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
void flush_nothing(const void*, std::size_t) {}
struct emulation {
  pmem2_flush_fn flush;
  const char* name;
};
emulation best_line_flush() noexcept { return {flush_nothing, "none"}; }
#endif

/// The file's name for an error message, if there are several files.
std::string named_among(unsigned files, const std::string& path) {
  return files > 1 ? fmt::format(" ({})", path) : std::string();
}

}  // namespace

persistence::persistence(int descriptor, std::string path, medium on, durability mode, pmem2_flush_fn flush_function,
                         pmem2_drain_fn drain_function, bool caches_persist) {
  add_file(descriptor, std::move(path));
  switch (on) {
    case medium::persistent_memory:
      if (mode == durability::operation) {
        flush_ = flush_function;
        drain_ = drain_function;
        method_ = caches_persist ? "eADR" : best_line_flush().name;
        return;
      }
      break;
    case medium::memory:
      if (mode == durability::operation) {
        const emulation lines = best_line_flush();
        flush_ = lines.flush;
        drain_ = drain_sfence;
        method_ = lines.name;
        return;
      }
      break;
    case medium::block_device:
      break;
  }
  // the other modes sync rarely, and everything: the kernel knows which pages (on DAX too) are dirty
  pages_ = true;
  method_ = "fdatasync";
}

unsigned persistence::add_file(int descriptor, std::string path) {
  synced_file& f = files_[file_count_];
  f.descriptor = descriptor;
  f.path = std::move(path);
  return file_count_++;
}

void persistence::persist(const void* data, std::size_t size) {
  flush(data, size);
  sync();
}

void persistence::sync_pages() {
  std::unique_lock lock(mutex_);
  // a running sync may have begun before our stores: only one that begins from now on counts
  const std::uint64_t wanted = started_ + 1;
  while (completed_ < wanted) {
    if (poisoned()) {
      lock.unlock();
      raise_poisoned();
    }
    if (running_) {
      synced_.wait(lock);
      continue;
    }
    running_ = true;
    const std::uint64_t mine = ++started_;
    lock.unlock();
    const bool ended_well = ends_well([this] { return sync_all(); });
    lock.lock();
    running_ = false;
    if (ended_well) completed_ = mine;
    synced_.notify_all();
  }
}

/// Whether a sync succeeded. Otherwise poisons the store, even if there is no memory for the reason: the kernel has
/// reported the failure and will not report it again.
template <typename Sync>
bool persistence::ends_well(Sync sync) noexcept {
  try {
    const std::string failure = sync();
    if (!failure.empty()) poison(failure);
    return failure.empty();
  } catch (const std::bad_alloc&) {
    poisoned_->store(true, std::memory_order_relaxed);  // relaxed: as in poison()
    return false;
  }
}

/// What went wrong in a sync of all files; empty if nothing did.
std::string persistence::sync_all() const {
  // let the files' devices write in parallel
  for (unsigned i = 1; i < file_count_; ++i) {
    static_cast<void>(sync_file_range(files_[i].descriptor, 0, 0, SYNC_FILE_RANGE_WRITE));
  }
  for (unsigned i = 0; i < file_count_; ++i) {
    std::string failure = failure_of(fdatasync(files_[i].descriptor), "fdatasync", files_[i]);
    if (!failure.empty()) return failure;
  }
  return {};
}

void persistence::sync_file(unsigned file) {
  if (file_count_ == 0) return;
  // fsync may report, and so consume, an error of writing data back: a later sync would then succeed
  if (!ends_well([&] { return failure_of(fsync(files_[file].descriptor), "fsync", files_[file]); })) raise_poisoned();
}

void persistence::verify_file_sizes() {
  const auto look = [this] {
    std::string wrong;
    for (unsigned i = 0; i < file_count_ && wrong.empty(); ++i) wrong = truncation_of(files_[i]);
    return wrong;
  };
  if (!ends_well(look)) raise_poisoned();
}

/// What went wrong in a sync that returned `result`; empty if nothing did.
std::string persistence::failure_of(int result, const char* call, const synced_file& of) const {
  const int number = errno;
  if (result != 0)
    return fmt::format("{} failed: {}{}", call, std::strerror(number), named_among(file_count_, of.path));
  return truncation_of(of);
}

/// The message if a file is shorter than it was; else empty.
std::string persistence::truncation_of(const synced_file& of) const {
  const auto which = [&] { return named_among(file_count_, of.path); };
  // acquire, and before fstat: the file may be growing meanwhile
  const std::uint64_t expected = of.size.load(std::memory_order_acquire);
  if (expected == 0) return {};
  struct stat s {};
  if (fstat(of.descriptor, &s) != 0) return fmt::format("fstat failed: {}{}", std::strerror(errno), which());
  if (static_cast<std::uint64_t>(s.st_size) >= expected) return {};
  return fmt::format("another program has truncated the file from {} to {} bytes{}", expected, s.st_size, which());
}

void persistence::poison(const std::string& reason) {
  const std::scoped_lock lock(mutex_);
  if (poisoned()) return;
  poisoned_->store(true, std::memory_order_relaxed);  // relaxed: the reason is read under the mutex
  poison_reason_ = reason;                            // after the flag: there may be no memory for a reason
}

void persistence::raise_poisoned() const {
  const std::scoped_lock lock(mutex_);
  raise(errc::poisoned, "{}: the store takes no more operations: {}; close it and open it again to recover",
        files_[0].path,
        poison_reason_.empty() ? "a sync failed, or another process that shared the store was killed during a change"
                               : poison_reason_);
}

}  // namespace icecore
