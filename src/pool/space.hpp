// What the processes that share an open pool know together of its file.
//
// It lies in memory that all of them map, or, while nobody shares the pool, in the pool object itself.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/locks/process_lock.hpp"
#include "pool/format.hpp"

namespace icecore {

/// Which file it is, whatever its path is and whatever it holds. A copy is another one, also where it took the place of
/// a file that is gone and whose inode it was given.
struct file_identity {
  std::uint64_t device;
  std::uint64_t inode;
  std::int64_t born_ns;  ///< since 1970-01-01 UTC; 0: the file system does not tell

  [[nodiscard]] bool operator==(const file_identity&) const = default;
};

struct pool_space {
  file_identity file{};        ///< set before anyone attaches, as the next one
  std::uint64_t capacity = 0;  ///< bytes of addresses that each process has for it
  process_lock lock;           ///< held to give out space; before `growing`, where both are held
  process_lock growing;        ///< held to grow the file
  std::atomic<std::uint64_t> used_end{format::first_segment_offset};
  std::atomic<std::uint64_t> size{0};  ///< of the file; all of it is mapped, or will be when it is touched
  process_lock roots;                  ///< held to write a root
};

}  // namespace icecore
