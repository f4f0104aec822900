// How bytes reach the media: cache lines are flushed and fenced, or pages are synced.
//
//   persist.flush(record, size);  persist.fence();      // cache lines: now durable
//   persist.sync();                                     // pages: all that was stored before is durable
//
// Every flush, fence and sync of an open store goes through this class. (pool_file syncs only new files and those that
// are opened for reading.) One object serves all files of a store: a sync covers all of them, and if it fails for one,
// it poisons all.
//
// Threads: all functions from any thread. sync() is a group commit: one fdatasync of each file serves all waiting
// threads.
// Errors: a failed sync poisons the store. The kernel has marked the pages clean by then, so what is on the media is
// unknown, and a second sync would wrongly report success. From then on sync() throws errc::poisoned.
#pragma once

#include <libpmem2.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "icecore/options.hpp"
#include "pool/format.hpp"

namespace icecore {

class persistence {
 public:
  /// Does nothing: for a private mapping, which no other process sees.
  persistence() = default;
  /// Does what the mode needs on this medium. The functions are libpmem2's. On a memory file system (emulated) our own
  /// replace them, since libpmem2 would call msync there.
  persistence(int descriptor, std::string path, medium on, durability mode, pmem2_flush_fn flush_function,
              pmem2_drain_fn drain_function, bool caches_persist);

  /// Adds another file of the store, on the same kind of medium; returns its number here. Call it before any other
  /// thread uses this object.
  unsigned add_file(int descriptor, std::string path);

  /// Starts to write back the cache lines of a range. They are durable after the next fence. Does nothing on page
  /// media.
  void flush(const void* data, std::size_t size) const noexcept {
    if (flush_ != nullptr) flush_(data, size);
  }
  /// On return, all earlier flushes of this thread are durable.
  void fence() const noexcept {
    if (drain_ != nullptr) drain_();
  }
  /// Makes one structure durable immediately, on any medium: flush and fence, or sync.
  void persist(const void* data, std::size_t size);
  /// Page media: on return, everything stored before is durable. Cache-line media: a fence.
  [[gnu::always_inline]] void sync() {
    fence();
    if (pages_) sync_pages();
  }
  /// On return, the file's size and the places of its blocks are durable, on any medium.
  void sync_file(unsigned file = 0);
  /// Sets the least size of the file: a sync of a file that another program truncated would succeed and keep nothing.
  void expect_file_size(std::uint64_t size, unsigned file = 0) noexcept {
    files_[file].size.store(size, std::memory_order_release);  // release: the file already has that size
  }

  /// Throws errc::poisoned if another program has truncated a file. A store behind the new end ends the process
  /// (SIGBUS), and if the file grew again, there would be zeros in the place of data. So call it before taking new
  /// space, growing a file or certifying what was written. Costs one system call per file.
  void verify_file_sizes();

  /// Replaces the medium's functions if it is flushed by cache lines: for tests that count flushes. Call it before any
  /// other thread uses this object.
  void replace_line_functions(pmem2_flush_fn flush_function, pmem2_drain_fn drain_function) noexcept {
    if (!by_cache_lines()) return;
    flush_ = flush_function;
    drain_ = drain_function;
  }

  /// Whether flush and fence are what makes data durable.
  [[nodiscard]] bool by_cache_lines() const noexcept { return flush_ != nullptr; }
  /// Whether sync() does anything.
  [[nodiscard]] bool by_pages() const noexcept { return pages_; }
  [[nodiscard]] bool poisoned() const noexcept {
    return poisoned_->load(std::memory_order_relaxed);  // relaxed: a flag that is only ever set and guards no data
  }
  /// From now on, what poisons one process poisons all that share the pool; `flag` lies in memory that they map.
  void share(std::atomic<bool>& flag) noexcept { poisoned_ = &flag; }
  /// Marks the store as unusable; later operations throw errc::poisoned with this reason.
  void poison(const std::string& reason);
  [[noreturn]] void raise_poisoned() const;
  [[nodiscard]] const char* method() const noexcept { return method_; }

 private:
  pmem2_flush_fn flush_ = nullptr;
  pmem2_drain_fn drain_ = nullptr;
  bool pages_ = false;
  const char* method_ = "none";
  std::atomic<bool> own_poisoned_{false};
  std::atomic<bool>* poisoned_ = &own_poisoned_;

  struct synced_file {
    int descriptor = -1;
    std::string path;
    std::atomic<std::uint64_t> size{0};  ///< the file has at least this size
  };

  void sync_pages();
  template <typename Sync>
  [[nodiscard]] bool ends_well(Sync sync) noexcept;
  [[nodiscard]] std::string sync_all() const;
  [[nodiscard]] std::string failure_of(int result, const char* call, const synced_file& of) const;
  [[nodiscard]] std::string truncation_of(const synced_file& of) const;

  std::array<synced_file, format::files_max> files_;
  unsigned file_count_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable synced_;
  std::uint64_t started_ = 0;    // syncs begun
  std::uint64_t completed_ = 0;  // the last of them that succeeded
  bool running_ = false;
  std::string poison_reason_;
};

}  // namespace icecore
