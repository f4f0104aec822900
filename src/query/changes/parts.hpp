// Cuts the keys into parts and gives them to threads.
//
// Threads: run_parts() calls `work` on several threads at once, each with parts of its own.
#pragma once

#include <algorithm>
#include <atomic>
#include <string_view>
#include <vector>

#include "base/threads.hpp"
#include "store/read/scan.hpp"

namespace icecore::detail {

/// The keys within bounds, in parts of about equal size: about 8 for each thread, or one for one thread. The bounds are
/// views of `within` and of keys in the pool.
template <class Engine>
[[nodiscard]] std::vector<scan_bounds> parts_of_keys(const Engine& engine, const index::ordered_links& links,
                                                     const key_bounds& within, unsigned threads) {
  std::vector<scan_bounds> parts{scan_bounds(within)};
  if (threads <= 1) return parts;
  for (const link l : links.split_points(std::size_t{threads} * 8)) {
    const std::string_view key = engine.key_of(l);
    if (key <= parts.back().from || parts.back().beyond(key)) continue;
    scan_bounds rest = parts.back();
    rest.from = key;
    parts.back().to = key;
    parts.back().bounded_above = true;
    parts.push_back(rest);
  }
  return parts;
}

/// Calls work(part, stopped) for each part number. The first exception stops all and is thrown; `stopped` then turns
/// true for the others.
template <typename Work>
void run_parts(std::size_t parts, unsigned threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stopped{false};
  run_on_threads(std::min(threads, static_cast<unsigned>(parts)), [&](unsigned) {
    try {
      // relaxed: a work counter and a hint; joining the threads orders what they hand over
      for (std::size_t p; (p = next.fetch_add(1, std::memory_order_relaxed)) < parts;) work(p, stopped);
    } catch (...) {
      stopped.store(true, std::memory_order_relaxed);
      throw;
    }
  });
}

}  // namespace icecore::detail
