// What the processes that share an open pool know together of its file.
//
// It lies in memory that all of them map, or, while nobody shares the pool, in the pool object itself.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/process_lock.hpp"
#include "pool/format.hpp"

namespace icecore {

struct pool_space {
  process_lock lock;     ///< held to give out space; before `growing`, where both are held
  process_lock growing;  ///< held to grow the file
  std::atomic<std::uint64_t> used_end{format::first_segment_offset};
  std::atomic<std::uint64_t> size{0};  ///< of the file; all of it is mapped, or will be when it is touched
  process_lock roots;                  ///< held to write a root
};

}  // namespace icecore
