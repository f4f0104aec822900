// The memory an index takes its nodes from: one range of addresses, committed from the front as it is needed. It
// belongs to one process, or to all processes that map the same file.
//
//   arena a({.huge_pages = true});
//   const arena_ref r = a.allocate(sizeof(leaf));       // zeroed, 64-byte aligned, never moved, freed with the arena
//   auto* n = new (a.at(r)) leaf;
//
//   arena shared({.file = descriptor, .locks = other});  // a new, empty file in memory
//   shared.set_root(0, r);                              // where other processes begin to read
//   arena same({.file = descriptor, .attach = true});   // in another process, at another address
//
// A reference is the distance from the arena's base in units of 64 bytes: 32 bits, half a pointer, and position
// independent, so processes can map an arena at different addresses. Following one is a shift and an add, because the
// whole range of addresses is reserved at once (without memory) and never moves. The arena's data about itself is in
// its first unit, so all processes share it.
//
// Threads: all functions from any thread of any process; an allocation is one compare-and-swap.
// Cost: memory is committed in steps that double from 64 KiB up to 32 MiB, so a tiny index takes 64 KiB at most. The
// kernel clears a page when it is first written to: make_ready() has that done before, by another thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/background/memory_ahead.hpp"
#include "base/locks/lock_descriptor.hpp"

namespace icecore::index {

/// Distance from the arena's base in units of 64 bytes. 0: none.
using arena_ref = std::uint32_t;

/// Which of an arena's roots leads to the index.
inline constexpr unsigned index_root = 0;

struct arena_options {
  /// Ask the kernel for huge pages (from the first 2 MiB on).
  bool huge_pages = true;
  /// Beyond this allocate() throws std::bad_alloc. A 32-bit reference reaches 256 GiB, the maximum.
  std::uint64_t size_max_bytes = std::uint64_t{256} << 30;
  /// A file on a memory file system that holds the arena, for other processes to attach to; -1: memory of this process.
  /// This descriptor and the next may be closed once the arena is constructed.
  int file = -1;
  /// A descriptor of the same file, from its own open() and never mapped: for locks that show which processes are
  /// alive.
  int locks = -1;
  /// The file holds an arena already, made by another process.
  bool attach = false;
  /// Where in the file the arena begins.
  std::uint64_t file_offset = 0;
};

class arena final : public memory_ahead {
 public:
  static constexpr std::size_t unit_bytes = 64;
  static constexpr std::uint64_t commit_min_bytes = std::uint64_t{64} << 10;
  static constexpr std::uint64_t commit_max_bytes = std::uint64_t{32} << 20;
  static constexpr unsigned root_count = 2;

  /// Reserves addresses, fewer than `size_max_bytes` if the process's address space is limited (RLIMIT_AS); when
  /// attaching, always as many as the arena has. Throws std::bad_alloc if it cannot reserve even a small range or, when
  /// attaching, all of it.
  explicit arena(const arena_options& options);
  ~arena();
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  /// Zeroed memory, 64-byte aligned. Throws std::bad_alloc, and then nothing has changed.
  [[nodiscard]] arena_ref allocate(std::uint64_t bytes);

  /// Whether a file holds an arena to attach to: checks for values that an arena cannot have.
  enum class content { nothing_yet, an_arena, something_else };
  [[nodiscard]] static content content_of(int file) noexcept;

  /// Whether this many bytes from a reference on were allocated.
  // Relaxed: a thread that follows a reference got it after they were.
  [[nodiscard]] bool contains(arena_ref ref, std::uint64_t bytes) const noexcept {
    return ref != 0 && std::uint64_t{ref} * unit_bytes + bytes <= head().used.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::byte* at(arena_ref ref) const noexcept { return base_ + std::uint64_t{ref} * unit_bytes; }

  /// The reference of what allocate() returned.
  [[nodiscard]] arena_ref ref_of(const std::byte* p) const noexcept {
    return static_cast<arena_ref>(static_cast<std::uint64_t>(p - base_) / unit_bytes);
  }

  /// Where the arena's contents begin: a few numbered references; 0 until set.
  // Release and acquire: a thread that finds a root sees all that it leads to.
  void set_root(unsigned number, arena_ref ref) noexcept { head().roots[number].store(ref, std::memory_order_release); }
  [[nodiscard]] arena_ref root(unsigned number) const noexcept {
    return head().roots[number].load(std::memory_order_acquire);
  }

  /// For a shared arena: marks this process, as `number`, as alive until it ends or the arena is destroyed.
  void hold(unsigned number) const;
  /// The number that this process holds; 0 for an arena that is not shared.
  [[nodiscard]] unsigned process() const noexcept {
    // relaxed: set before other threads use the arena
    const std::uint32_t own = own_.load(std::memory_order_relaxed);
    return own == nobody ? 0 : own;
  }
  /// Whether the process that holds `number` is still alive.
  [[nodiscard]] bool is_held(unsigned number) const noexcept;

  // ---- Further arenas in the file of a shared one, each as large at most, one behind the other ----
  /// Makes the one of this number, from 1 on: empty, in place of what was there. Throws as the constructor.
  [[nodiscard]] std::shared_ptr<arena> make_sibling(std::uint32_t number, bool huge_pages) const;
  /// The one that another process has made.
  [[nodiscard]] std::shared_ptr<arena> attach_sibling(std::uint32_t number, bool huge_pages) const;
  /// Gives its memory back to the file system. No process uses it.
  void clear_sibling(std::uint32_t number) const noexcept;
  /// Whether another process holds one of these bytes of the file's locks, which lie behind those of hold().
  [[nodiscard]] bool others_lock(std::uint64_t first, std::uint64_t count) const noexcept;

  /// Bytes allocated so far.
  // Relaxed: a statistic, it orders nothing.
  [[nodiscard]] std::uint64_t used_bytes() const noexcept { return head().used.load(std::memory_order_relaxed); }

  // Relaxed: a hint.
  [[nodiscard]] bool wanted() const noexcept override {
    const std::uint64_t used = used_bytes();
    const std::uint64_t ahead = ahead_of(used);
    return ahead != 0 && touched_.load(std::memory_order_relaxed) < used + ahead / 2;
  }
  /// Has the kernel give memory to what the next allocations will return; others go on allocating meanwhile. Does
  /// nothing if the kernel is older than Linux 5.14.
  bool make_ready() noexcept override;

 private:
  /// The arena's first unit; reference 0 is none.
  struct alignas(unit_bytes) head_unit {
    std::uint64_t reserved;                ///< bytes that can ever be allocated
    std::atomic<std::uint64_t> committed;  ///< bytes from the base that have memory
    std::atomic<std::uint64_t> used;       ///< bytes allocated, this unit among them
    std::atomic<arena_ref> roots[root_count];
    std::atomic<std::uint64_t> magic;  ///< written last: then the fields before it are set
  };
  static_assert(sizeof(head_unit) == unit_bytes);
  static constexpr std::uint64_t magic_word = 0x616e657261656369U;  ///< "icearena"

  [[nodiscard]] head_unit& head() const noexcept { return *reinterpret_cast<head_unit*>(base_); }
  void reserve(std::uint64_t bytes, const arena_options& options);
  /// How much is touched ahead: an eighth, 4 to 32 MiB; nothing of a small arena.
  [[nodiscard]] static constexpr std::uint64_t ahead_of(std::uint64_t used) noexcept {
    constexpr std::uint64_t least = std::uint64_t{4} << 20;
    return used < least ? 0 : used / 8 > commit_max_bytes ? commit_max_bytes : used / 8 < least ? least : used / 8;
  }
  void back(std::uint64_t from, std::uint64_t bytes) const;
  [[nodiscard]] arena_options sibling_options(std::uint32_t number, bool huge_pages) const noexcept;
  void commit(std::uint64_t end);

  std::byte* base_ = nullptr;     ///< aligned to a huge page
  std::byte* mapping_ = nullptr;  ///< what mmap returned
  std::uint64_t mapping_bytes_ = 0;
  std::atomic<std::uint64_t> touched_{0};           // up to here; only make_ready() writes it
  int file_ = -1;                                   ///< a descriptor that this arena owns
  std::uint64_t offset_ = 0;                        ///< where it begins in the file
  std::optional<lock_descriptor> locks_;            ///< of the same file
  mutable std::atomic<std::uint32_t> own_{nobody};  ///< the number this process holds
  static constexpr std::uint32_t nobody = ~std::uint32_t{0};
};

}  // namespace icecore::index
