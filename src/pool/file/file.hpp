// A pool file and its lock.
//
// Either one process writes a pool or any number of processes read it. An open-file-description lock on the file,
// exclusive or shared, ensures this. If the holder of the exclusive lock shares the pool, each attached process has a
// lock of its own beside it. Who reads beside the writer has no such lock, and relies on none (store/beside/). It lets
// writers know what it looks at, and if need be that it is there: by shared locks on bytes that no writer locks.
// Errors: errc::no_such_store, store_exists, not_a_store, permission, locked, no_space, io, each naming the path.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/locks/lock_descriptor.hpp"
#include "icecore/options.hpp"
#include "pool/space.hpp"

namespace icecore {

/// Whether this is tmpfs, ramfs or hugetlbfs, whose content is gone at power off.
[[nodiscard]] bool is_on_memory_filesystem(int descriptor) noexcept;
/// Allocates the blocks of from..to that are in holes. 0, or the error's number.
[[nodiscard]] int allocate(int descriptor, std::uint64_t from, std::uint64_t to) noexcept;

/// Opens a file without a lock, beside the process that has it open for writing.
struct beside_writer {};

/// A file descriptor with its path, locked from construction to destruction.
class pool_file {
 public:
  pool_file(const std::filesystem::path& path, access how, creation create);
  pool_file(const std::filesystem::path& path, beside_writer how);
  ~pool_file();
  pool_file(const pool_file&) = delete;
  pool_file& operator=(const pool_file&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  [[nodiscard]] std::uint64_t size() const;
  [[nodiscard]] std::uint64_t inode() const;
  [[nodiscard]] file_identity identity() const;
  /// The first offset at or behind `from` that is not in a hole; empty if the file ends before one.
  [[nodiscard]] std::optional<std::uint64_t> next_data(std::uint64_t from) const noexcept;
  /// The first offset at or behind `from` that is in a hole, or the file's end; empty if the file ends before `from`.
  [[nodiscard]] std::optional<std::uint64_t> next_hole(std::uint64_t from) const noexcept;
  /// Reads `size` bytes at `offset`; false if the file does not have them. Throws if the system cannot read.
  [[nodiscard]] bool read(void* into, std::size_t size, std::uint64_t offset) const;
  /// Grows the file to `size` and allocates every block, so that no later store can fail. Durable after a sync.
  /// `huge_pages`: on a memory file system, each 2 MiB range that is completely new gets a huge page if the kernel has
  /// one.
  void grow(std::uint64_t size, bool huge_pages) const;
  void shrink(std::uint64_t size) const noexcept;
  /// New space is a hole: write to it before any thread stores to it through a mapping.
  void set_size(std::uint64_t size) const;
  /// Gives the blocks of whole pages back to the file system: they are a hole. Durable after a sync. False, and nothing
  /// has changed, if the file system cannot.
  [[nodiscard]] bool give_back(std::uint64_t from, std::uint64_t size) const noexcept;
  /// Allocates what is a hole there, so that no later store can fail. errc::no_space.
  void require_blocks(std::uint64_t from, std::uint64_t size) const;

  // ---- Who looks at the file: as long as views into its mapping live, also when it is closed ----
  // It is a lock of another kind (flock) than those above, shared by all that have the file open or views into it; but
  // who keeps one manifest needs no such lock beside it.
  // Where the file system takes the two kinds for one, or has none, nobody holds it, and no space is given back.
  // A process that is attached does not hold it: it tells the processes with which it shares the store what it looks at
  // (store/sharing/), and the file is open for writing as long as it lives.
  /// What views keep.
  [[nodiscard]] const std::shared_ptr<const lock_descriptor>& viewer() const noexcept { return viewer_; }
  /// While it lives, nobody else looks at what this manifest does not name, and who comes waits. Null if somebody does,
  /// or if nobody can tell. Precondition: the root leads to the manifest.
  [[nodiscard]] std::shared_ptr<const void> without_other_viewers(std::uint32_t manifest) const;
  /// For a process that was attached and ends, while views of it live on: from now on it is such a viewer.
  void begin_to_view() const noexcept;
  /// For a reader beside the writer, which keeps from here on what it looks at.
  void end_viewing() const noexcept;
  /// While it lives, what the manifest of this number names is not given back, and all else may be. If that cannot be
  /// told (the file system has no such locks, or an icecore has the file open for writing that does not know of them),
  /// it is as keep_all(). Several of one manifest are one. Only of a file that is open beside_writer; from any thread.
  //
  // Who gives space back has the root lead to the next manifest first, and then looks which ones are kept. So who keeps
  // one looks at the root again behind that: if it still leads there, then whoever is to replace it sees the lock.
  [[nodiscard]] std::shared_ptr<const void> keep(std::uint32_t manifest);
  /// While it lives, nothing is given back. Waits for who does so just now. errc::io without a lock; errc::locked if
  /// that takes longer than a process can wait that ends.
  [[nodiscard]] std::shared_ptr<const void> keep_all() const;
  /// Leaves space beside this process's lock for the locks of attached processes (access::attached).
  void admit_attached() const;

  // ---- Beside writers ----
  /// From now on each process that opens the file for writing sees that it is observed, until this object ends. Keeps
  /// nobody out but an icecore that does not know of observers. False if such a one has the file open for writing, if
  /// the path leads to another file by now, or if the file system refuses. Only of a file that is open beside_writer.
  /// From any thread. Who reads kept queries beside the writer observes, too: then no query's space is used again.
  [[nodiscard]] bool observe();
  /// Whether another opening of the file observes it.
  [[nodiscard]] bool is_observed() const noexcept;
  /// Whether another opening has the file open for writing, or is attached. Only of a file that is observed.
  [[nodiscard]] bool is_being_written() const noexcept;

  /// Restores the state before a failed creation: no file, or an empty one if there was one.
  void remove_created_file() const noexcept;
  /// Makes the file's content durable for a process that only reads it. Writers sync through persistence.
  void sync() const;
  /// Makes the file and its name durable: syncs the file and its directory.
  void sync_with_directory() const;

  /// The number of bytes that the file system can hold.
  [[nodiscard]] std::uint64_t device_capacity() const noexcept;
  [[nodiscard]] std::string filesystem_name() const;
  [[nodiscard]] bool on_memory_filesystem() const noexcept { return in_memory_; }
  /// Whether the file system maps this file's pages directly (DAX), according to the kernel.
  [[nodiscard]] bool is_dax() const noexcept;

 private:
  struct range {
    std::int64_t from;
    std::int64_t bytes;  ///< 0: to the end of all offsets
  };
  /// Locks of attached processes start here, beyond the end of the largest possible file.
  static constexpr std::int64_t attached_from = std::int64_t{1} << 62;
  /// The byte that observers lock.
  static constexpr std::int64_t observers_at = attached_from - 2;
  /// There is a byte for each manifest, which who keeps it locks.
  static constexpr std::int64_t manifests_max = std::int64_t{1} << 32;
  static constexpr std::int64_t manifests_from = observers_at - manifests_max;
  [[nodiscard]] static constexpr range byte_of(std::uint32_t manifest) noexcept {
    return {manifests_from + manifest, 1};
  }
  /// What a writer locks: in this order, so the first of them decides which one of several writers has the file.
  static constexpr range of_writer[] = {{0, manifests_from}, {observers_at + 1, 0}};

  [[noreturn]] void refuse_empty() const;
  [[noreturn]] void raise_not_opened(int number, bool may_create) const;
  void open_for_locks(int flags);
  [[nodiscard]] bool is_other_file(int descriptor) const;
  void lock(access how) const;
  [[nodiscard]] static bool set_lock(int descriptor, int type, const range& what) noexcept;
  [[nodiscard]] bool try_lock(int type, const range& what) const noexcept;
  [[nodiscard]] bool is_any_kept_but(std::uint32_t manifest) const noexcept;
  [[nodiscard]] std::optional<struct flock> holder_against(int type, const range& what) const noexcept;
  void lock_attached() const;
  void refuse_if_not_shared(std::int64_t at) const;
  void begin_viewing(access how);
  bool view(const lock_descriptor& by) const;
  [[nodiscard]] std::shared_ptr<const void> keep_by_lock(std::uint32_t manifest);
  [[noreturn]] void raise_locked(access how) const;
  void check_kind() const;
  void allocate_huge_pages(std::uint64_t from, std::uint64_t to) const noexcept;

  std::filesystem::path path_;
  int descriptor_ = -1;
  bool in_memory_ = false;
  std::mutex observing_;
  std::optional<lock_descriptor> locks_;  // none beside the writer, unless it observes
  std::shared_ptr<const lock_descriptor> viewer_;
  struct keeper;
  std::shared_ptr<keeper> keeper_;  // of manifests; none before the first
  bool created_ = false;
};

}  // namespace icecore
