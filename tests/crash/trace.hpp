// What a simulated machine saw: every store to a mapped file of one store, every flush, fence and sync, every change of
// a file's size, in the order in which the program made them; and between them where each operation began and was
// acknowledged.
//
// A trace says all that decides what a crash at any moment may leave (media.hpp).
#pragma once

#include <cstdint>
#include <vector>

namespace icecore::crash {

struct event {
  enum class kind : std::uint8_t {
    store,           ///< `size` bytes (1 to 8, inside one aligned word) at `offset` became `value`
    flush,           ///< the cache lines of [offset, offset + value) are being written back
    fence,           ///< this writer's flushes before it are done
    sync_begin,      ///< fdatasync or fsync was called
    sync_end,        ///< all stored before its call in the file at `offset`, and that file's size, are durable
    resize,          ///< the file at `offset` is there and has `value` bytes
    directory_sync,  ///< the names of all files that are there are durable
    begin,           ///< operation `value` of the workload was called
    end,             ///< it returned
  };
  kind what;
  std::uint8_t writer = 0;
  std::uint8_t size = 0;
  std::uint64_t offset = 0;  ///< in all files (files.hpp)
  std::uint64_t value = 0;
};

using trace = std::vector<event>;

}  // namespace icecore::crash
