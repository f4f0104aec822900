// The best performance of this machine's memory, caches and devices: limits that no store can exceed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace icecore::bench {

/// Nanoseconds of one access to a random cache line of `bytes` of memory, where each access depends on the one before.
/// `huge_pages`: ask for pages of 2 MiB; else 4 KiB.
[[nodiscard]] double random_access_ns(std::size_t bytes, bool huge_pages);

struct machine_limit {
  std::string name;
  unsigned threads;
  std::uint64_t n;    ///< size of the memory walked, or number of operations
  double per_second;  ///< in the unit `unit`
  std::string unit;
};

/// Random accesses that depend on each other and ones that do not, flush and fence of a line, bandwidths, a counter
/// that all threads increment, clock readings, and fdatasync of a page of a file in `sync_folder`. Takes seconds.
/// Errors: std::system_error if the folder cannot be written to.
[[nodiscard]] std::vector<machine_limit> measure_machine_limits(const std::vector<unsigned>& threads,
                                                                const std::filesystem::path& sync_folder);

}  // namespace icecore::bench
