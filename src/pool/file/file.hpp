// A pool file and its lock.
//
// One process writes a pool, or any number read it: an open-file-description lock on the whole file, exclusive or
// shared; beside the exclusive one, if its holder shares the pool, one for each process that attached. Errors:
// errc::no_such_store, store_exists, not_a_store, permission, locked, no_space, io, each naming the path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/locks/lock_descriptor.hpp"
#include "icecore/options.hpp"
#include "pool/space.hpp"

namespace icecore {

/// tmpfs, ramfs and hugetlbfs: gone at power off.
[[nodiscard]] bool is_on_memory_filesystem(int descriptor) noexcept;

/// A file descriptor with its path, locked from construction to destruction.
class pool_file {
 public:
  pool_file(const std::filesystem::path& path, access how, creation create);
  ~pool_file();
  pool_file(const pool_file&) = delete;
  pool_file& operator=(const pool_file&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  [[nodiscard]] std::uint64_t size() const;
  [[nodiscard]] std::uint64_t inode() const;
  [[nodiscard]] file_identity identity() const;
  /// The first place at or behind `from` that is no hole; empty if the file ends before one.
  [[nodiscard]] std::optional<std::uint64_t> next_data(std::uint64_t from) const noexcept;
  /// `size` bytes from `offset` on; false if they are not there.
  [[nodiscard]] bool read(void* into, std::size_t size, std::uint64_t offset) const noexcept;
  /// Grows the file to `size` with every block allocated, so that no later store can fail. Durable after a sync.
  /// `huge_pages`: on a memory file system, those of the 2 MiB that are new as a whole get a huge page each, where the
  /// kernel has one.
  void grow(std::uint64_t size, bool huge_pages) const;
  void shrink(std::uint64_t size) const noexcept;
  /// What is new is a hole: it is to be written to, or filled, before anyone stores to it.
  void set_size(std::uint64_t size) const;
  /// Sees to it that no later store between these places can fail. What is a hole becomes zeros.
  void fill_holes(std::uint64_t from, std::uint64_t to) const;
  /// Leaves room beside this process's lock for those of others (access::attached).
  void admit_attached() const;
  /// Leaves things as they were before a creation that failed: no file, or an empty one if there was one.
  void undo_creation() const noexcept;
  /// Makes the file's content durable, for those who only read it: writers sync through persistence.
  void sync() const;
  /// Makes the file's name durable: syncs the file and its directory.
  void sync_with_directory() const;

  /// Bytes the file system can hold at most.
  [[nodiscard]] std::uint64_t device_capacity() const noexcept;
  [[nodiscard]] std::string filesystem_name() const;
  [[nodiscard]] bool on_memory_filesystem() const noexcept { return is_on_memory_filesystem(descriptor_); }
  /// The file system maps this file's pages directly (DAX), as the kernel says.
  [[nodiscard]] bool is_dax() const noexcept;

 private:
  /// Locks of attached processes lie from here on: behind all that a file can have.
  static constexpr std::int64_t attached_from = std::int64_t{1} << 62;

  void open_for_locks(int flags);
  void lock(access how) const;
  void lock_attached() const;
  void refuse_if_not_shared(std::int64_t at) const;
  [[noreturn]] void raise_locked(access how) const;
  void check_kind() const;
  void allocate_huge_pages(std::uint64_t from, std::uint64_t to) const noexcept;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::optional<lock_descriptor> locks_;
  bool created_ = false;
};

}  // namespace icecore
