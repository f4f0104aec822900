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

struct pool_space {
  file_identity file{};        ///< set before any process attaches, as is the next one
  std::uint64_t capacity = 0;  ///< bytes of addresses that each process reserves for it
  process_lock lock;           ///< held to give out space; taken before `growing` where both are held
  process_lock growing;        ///< held to grow the file
  std::atomic<std::uint64_t> used_end{format::first_segment_offset};
  std::atomic<std::uint64_t> size{0};  ///< of the file; all of it is mapped, or will be when touched
  process_lock roots;                  ///< held to write a root
};

}  // namespace icecore
