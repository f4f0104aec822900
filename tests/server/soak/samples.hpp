// What a process holds, and whether that stays level.
//
//   std::vector<sample> all;
//   all.push_back(sample_of(pid));                        // each minute, when the process is at rest
//   for (const std::string& each : what_grows(all)) ...   // "descriptors are not level: ..."
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace icecore::soak {

struct sample {
  std::int64_t resident_kib = 0;   // all memory, files that are mapped too
  std::int64_t anonymous_kib = 0;  // without those
  std::int64_t descriptors = 0;
  std::int64_t threads = 0;
  std::int64_t processor_ms = 0;  // used since its start

  friend bool operator==(const sample&, const sample&) = default;
};
[[nodiscard]] sample sample_of(pid_t process);
[[nodiscard]] std::string text_of(const sample& what);

/// How much a series grows from its begin to its end: the median of the slopes between all pairs (Theil and Sen), times
/// its length. Less than 29 % of the values may be arbitrary. O(n^2).
[[nodiscard]] double growth_of(const std::vector<std::int64_t>& series);

/// What is not level in samples at rest. The first quarter is left out: caches and pools fill. Descriptors and threads
/// may not grow by one, memory by 4 MiB or a fiftieth.
[[nodiscard]] std::vector<std::string> what_grows(const std::vector<sample>& at_rest);

}  // namespace icecore::soak
