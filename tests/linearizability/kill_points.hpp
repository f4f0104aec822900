// Named points inside the store at which a process can be made to end, without any change of the store: the functions
// of the system that it calls are replaced in this program, and its flushes and fences where persistence lets them be.
//
//   arm({kill_point::sync, 3, true}, *struck);   // in the child: die right after its third fdatasync
//   store s(path, opening);
//   replace_line_functions(s);
//
// A point is counted over all threads. The thread that reaches it sends SIGKILL to its own process.
// Threads: arm() before others are started.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "icecore/store.hpp"

namespace icecore::testing {

enum class kill_point : std::uint8_t {
  none,
  sync,       ///< fdatasync: tags, group commits, roots
  file_sync,  ///< fsync: growth, creation
  allocate,   ///< posix_fallocate: growth
  truncate,   ///< ftruncate: clean close
  populate,   ///< madvise: a new segment, its header written
  stat,       ///< fstat: opening, after each sync
  hostname,   ///< gethostname: the beginning of recovery
  flush,      ///< of cache lines, under operation durability, once the store is open
  fence,
};
inline constexpr unsigned kill_points = 10;
[[nodiscard]] std::string_view name_of(kill_point point);

struct kill_plan {
  kill_point point = kill_point::none;
  std::uint32_t count = 1;  ///< the how-manieth call
  bool behind = false;      ///< after the call, not before
};

/// `struck` is set to the point's number right before the end; it lies in memory that the supervisor shares.
void arm(const kill_plan& plan, std::atomic<std::uint32_t>& struck);

/// Puts the counted flush and fence in place of an open store's own, if the plan asks for these points.
void replace_line_functions(store& s);

}  // namespace icecore::testing
