// What the processes that share an open pool know about its file in common.
//
// It lies in memory that all of them map. While the pool is not shared, it lies in the pool object itself.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/locks/process_lock.hpp"
#include "pool/format.hpp"

namespace icecore {

/// Identifies a file, whatever its path and its content. A copy is another file, even if it replaced a deleted file and
/// got its inode.
struct file_identity {
  std::uint64_t device;
  std::uint64_t inode;
  std::int64_t born_ns;  ///< since 1970-01-01 UTC; 0: the file system does not report it

  [[nodiscard]] bool operator==(const file_identity&) const = default;
};

/// Space that is being given out, for the next holder of the lock if this one is killed: `size` bytes at `offset`, of a
/// hole of `all` bytes or behind all segments. Changed under the lock.
class space_in_hand {
 public:
  struct range {
    std::uint64_t offset;
    std::uint64_t size;  ///< 0: none
    std::uint64_t all;
  };
  void begin(std::uint64_t offset, std::uint64_t size, std::uint64_t all) noexcept {
    end();                                             // what an error has left
    offset_.store(offset, std::memory_order_relaxed);  // relaxed: ordered by the size
    all_.store(all, std::memory_order_relaxed);
    size_.store(size, std::memory_order_release);  // release: who sees it sees the rest
    // Not before: the claim, and the header. A kill comes between two instructions, so the compiler's order is enough.
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  void end() noexcept {
    size_.store(0, std::memory_order_release);            // release: what was given out is complete
    std::atomic_signal_fence(std::memory_order_seq_cst);  // as above
  }
  [[nodiscard]] range get() const noexcept {
    const std::uint64_t size = size_.load(std::memory_order_acquire);  // acquire: as begin()
    return {offset_.load(std::memory_order_relaxed), size, all_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<std::uint64_t> offset_{0};
  std::atomic<std::uint64_t> size_{0};
  std::atomic<std::uint64_t> all_{0};
};

struct pool_space {
  file_identity file{};        ///< set before any process attaches, as is the next one
  std::uint64_t capacity = 0;  ///< bytes of addresses that each process reserves for it
  process_lock lock;           ///< held to give out space; taken before `growing` where both are held
  process_lock growing;        ///< held to grow the file
  space_in_hand giving_out;
  std::atomic<std::uint64_t> used_end{format::first_segment_offset};
  std::atomic<std::uint64_t> size{0};  ///< of the file; all of it is mapped, or will be when touched
  process_lock roots;                  ///< held to write a root
};

}  // namespace icecore
