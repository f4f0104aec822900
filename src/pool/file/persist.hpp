// How bytes reach the media: cache lines flushed and fenced, or pages synced.
//
//   persist.flush(record, size);  persist.fence();      // cache lines: now durable
//   persist.sync();                                     // pages: all that was stored before is durable
//
// Every flush, fence and sync of the store goes through this page; nothing else touches durability.
// One object serves all files of a store: a sync is one of all, and if it fails for one all are poisoned.
//
// Threads: all functions from any thread. sync() is a group commit: one fdatasync of each file serves all who wait.
// Errors: a failed sync poisons. The kernel has marked the pages clean, so nobody knows what is on the media, and a
//   second sync would report success wrongly. sync() throws errc::poisoned from then on.
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
  /// Nothing is done at all: a private mapping, which no one else sees.
  persistence() = default;
  /// What the mode needs on this medium. The functions are libpmem2's; on a memory file system (emulated) our own take
  /// their place, since libpmem2 would msync there.
  persistence(int descriptor, std::string path, medium on, durability mode, pmem2_flush_fn flush_function,
              pmem2_drain_fn drain_function, bool caches_persist);

  /// Another file of the store, on a medium of the same kind; returns its number here. Before any other thread is
  /// there.
  unsigned add_file(int descriptor, std::string path);

  /// Starts writing the cache lines of a range back; durable after the next fence. Does nothing on page media.
  void flush(const void* data, std::size_t size) const noexcept {
    if (flush_ != nullptr) flush_(data, size);
  }
  /// All flushes of this thread before it are durable when it returns.
  void fence() const noexcept {
    if (drain_ != nullptr) drain_();
  }
  /// Makes one structure durable at once, on any medium: flush and fence, or sync.
  void persist(const void* data, std::size_t size);
  /// Page media: everything stored before is durable when it returns. Cache-line media: a fence.
  void sync() {
    fence();
    if (pages_) sync_pages();
  }
  /// The file's size and the places of its blocks are durable when it returns, on any medium.
  void sync_file(unsigned file = 0);
  /// How long the file is at least: a sync of one that somebody has truncated would succeed and keep nothing.
  void expect_file_size(std::uint64_t size, unsigned file = 0) noexcept {
    files_[file].size.store(size, std::memory_order_release);  // release: it has that size already
  }

  /// Throws errc::poisoned if another program has truncated a file. What is stored behind its end then ends the process
  /// (SIGBUS), and if the file grew again there would be zeros where something was: so before a call takes new space,
  /// grows a file or certifies what was written. Costs a system call for each file.
  void verify_file_sizes();

  /// Takes other functions in place of the medium's, where it is flushed by cache lines: for tests that count what is
  /// flushed. Before any other thread uses this.
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
    return poisoned_->load(std::memory_order_relaxed);  // relaxed: a flag that only ever rises, no data goes with it
  }
  /// From now on all processes that share the pool are poisoned with one; `flag` lies in memory that they map.
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
    std::atomic<std::uint64_t> size{0};  ///< that it has at least
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
  std::uint64_t completed_ = 0;  // the last one of them that ended well
  bool running_ = false;
  std::string poison_reason_;
};

}  // namespace icecore
