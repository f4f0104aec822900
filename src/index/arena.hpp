// The memory an index takes its nodes from: one range of addresses, committed from the front as it is needed.
//
//   arena a({.huge_pages = true});
//   const arena_ref r = a.allocate(sizeof(leaf));       // zeroed, 64-byte aligned, never moved, freed with the arena
//   auto* n = new (a.at(r)) leaf;
//
// A reference is the distance from the arena's base in units of 64 bytes: 32 bits, half a pointer, and position
// independent, so that an arena can later be shared between processes that map it at different addresses. Following one
// is a shift and an add, because the whole range of addresses is reserved at once (without memory) and never moves.
//
// Threads: allocate() and at() may be called from any number of threads at once; a bump is one compare-and-swap.
// Cost: memory is committed in steps that double from 64 KiB up to 32 MiB, so a tiny index takes 64 KiB at most.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace icecore::index {

/// Distance from the arena's base in units of 64 bytes. 0: none.
using arena_ref = std::uint32_t;

struct arena_options {
  /// Ask the kernel for huge pages (from the first 2 MiB on).
  bool huge_pages = true;
  /// Beyond this allocate() throws std::bad_alloc. What a 32-bit reference reaches is the most there can be.
  std::uint64_t size_max_bytes = std::uint64_t{256} << 30;
};

class arena {
 public:
  static constexpr std::size_t unit_bytes = 64;
  static constexpr std::uint64_t commit_min_bytes = std::uint64_t{64} << 10;
  static constexpr std::uint64_t commit_max_bytes = std::uint64_t{32} << 20;

  /// Reserves addresses; less than `size_max_bytes` where the process's address space is limited (RLIMIT_AS).
  /// Throws std::bad_alloc if not even a small range can be had.
  explicit arena(const arena_options& options);
  ~arena();
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  /// Zeroed memory, 64-byte aligned. Throws std::bad_alloc, and then nothing has changed.
  [[nodiscard]] arena_ref allocate(std::uint64_t bytes);

  [[nodiscard]] std::byte* at(arena_ref ref) const noexcept { return base_ + std::uint64_t{ref} * unit_bytes; }

  /// The reference of what allocate() handed out.
  [[nodiscard]] arena_ref ref_of(const std::byte* p) const noexcept {
    return static_cast<arena_ref>(static_cast<std::uint64_t>(p - base_) / unit_bytes);
  }

  /// Bytes handed out so far.
  // Relaxed: a statistic, it orders nothing.
  [[nodiscard]] std::uint64_t used_bytes() const noexcept { return used_.load(std::memory_order_relaxed); }

 private:
  void commit(std::uint64_t end);

  std::byte* base_ = nullptr;     ///< aligned to a huge page
  std::byte* mapping_ = nullptr;  ///< what mmap returned
  std::uint64_t mapping_bytes_ = 0;
  std::uint64_t reserved_ = 0;  ///< bytes that can ever be handed out
  std::mutex growth_;           ///< held to move committed_
  std::atomic<std::uint64_t> committed_{0};
  std::atomic<std::uint64_t> used_{unit_bytes};  ///< the first unit stays unused: reference 0 is none
};

}  // namespace icecore::index
