// Evaluates a filter over the keys of one version, 64 keys at once: what lazy ranges, totals, columns and kept queries
// have in common.
//
//   matching<Engine> found(engine, v, where.program());
//   found.block(entries, [&](const rows& block, row_mask matches) { ... });
//
// Threads: one object, one thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/raise.hpp"
#include "base/threads.hpp"
#include "filter/program.hpp"
#include "store/read/scan.hpp"
#include "store/read/sorted_keys.hpp"

namespace icecore::detail {

/// The keys between two bounds that a filter's ranges leave. The views are those of their arguments.
[[nodiscard]] inline std::vector<scan_bounds> within_ranges(const std::vector<key_range>& ranges,
                                                            const scan_bounds& bounds) {
  std::vector<scan_bounds> all;
  for (const key_range& range : ranges) {
    scan_bounds b = bounds;
    b.from = std::max<std::string_view>(range.from, bounds.from);
    if (range.to && (!b.bounded_above || *range.to < b.to)) {
      b.to = *range.to;
      b.bounded_above = true;
    }
    b.of_closed_version = true;  // as of all that filters are asked about
    if (!b.beyond(b.from)) all.push_back(b);
  }
  return all;
}
std::vector<scan_bounds> within_ranges(const std::vector<key_range>&& ranges, const scan_bounds&) = delete;

/// Snapshots have no changes. errc::invalid_argument.
inline void refuse_changes(needs_of reads) {
  if (reads.kept) {
    raise(errc::invalid_argument, "a filter over the columns that a query has kept is asked of query::rows() only");
  }
  if (!reads.changes) return;
  raise(errc::invalid_argument, "`before`, `removed` and `first` are known of changes only, not of a snapshot's rows");
}

template <class Engine>
class matching {
 public:
  /// `reads` says what is read of each row besides its key.
  matching(const Engine& engine, version at, const filter_program& where, needs_of reads)
      : engine_(&engine), at_(at), where_(&where), reads_(reads) {
    refuse_changes(reads);
    refuse_changes(where.needs());
    reads_.value = reads_.value || where.needs().value;
    reads_.version = reads_.version || where.needs().version;
  }

  /// Calls visit(rows, mask of those that match) for the entries of an index block that are there in the version, at
  /// most `rows_max` at once, until it returns false. Returns false if it did.
  template <typename Visit>
  bool block(std::span<const link> entries, std::size_t at_once, const Visit& visit) {
    std::array<link, index::block::capacity> visible;
    const std::size_t found = visible_records(*engine_, entries, at_, visible);
    for (std::size_t from = 0; from < found; from += at_once) {
      rows block = read(std::span<const link>(visible).subspan(from, std::min(at_once, found - from)));
      if (!visit(block, [&] { return where_->test(block, memory_); })) return false;
    }
    return true;
  }
  [[nodiscard]] scratch& memory() noexcept { return memory_; }

 private:
  [[nodiscard]] rows read(std::span<const link> records) {
    rows block;
    block.size = records.size();
    for (std::size_t i = 0; i < records.size(); ++i) {
      keys_[i] = key_of_record(*engine_, records[i]);
      if (reads_.value) values_[i] = engine_->value_of(records[i]);
      if (reads_.version) versions_[i] = engine_->histories().stamp_of(records[i]);
    }
    block.keys = keys_.data();
    block.values = values_.data();
    block.versions = versions_.data();
    return block;
  }

  const Engine* engine_;
  version at_;
  const filter_program* where_;
  needs_of reads_;
  scratch memory_;
  std::array<std::string_view, rows_max> keys_;
  std::array<std::string_view, rows_max> values_;
  std::array<version, rows_max> versions_;
};

/// Cuts the keys into parts for threads, each a list of bounds; calls make(part count), then on the threads
/// visit(part, rows, mask, memory), in key order within a part.
template <class Engine, typename Make, typename Visit>
void visit_matches(const Engine& engine, version at, const filter_program& where, needs_of reads, unsigned threads,
                   const Make& make, const Visit& visit) {
  const std::vector<key_range> ranges = where.key_ranges();
  std::shared_ptr<const sorted_keys> kept;
  const index::ordered_links& links = in_key_order(engine, kept, threads);
  std::vector<scan_bounds> parts(1);
  if (threads > 1) {
    for (const link l : links.split_points(std::size_t{threads} * 8)) {
      const std::string_view key = engine.key_of(l);
      parts.back().to = key;
      parts.back().bounded_above = true;
      parts.emplace_back().from = key;
    }
  }
  make(parts.size());
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stopped{false};
  run_on_threads(std::min(threads, static_cast<unsigned>(parts.size())), [&](unsigned) {
    matching<Engine> found(engine, at, where, reads);
    try {
      // relaxed: a work counter and a hint; joining the threads orders what they hand over
      for (std::size_t p; (p = next.fetch_add(1, std::memory_order_relaxed)) < parts.size();) {
        for (const scan_bounds& bounds : within_ranges(ranges, parts[p])) {
          for_each_block(engine, links, bounds, [&](std::span<const link> entries) {
            return found.block(entries, rows_max, [&](const rows& block, const auto& test) {
              if (const row_mask mask = test(); mask != 0) visit(p, block, mask, found.memory());
              return !stopped.load(std::memory_order_relaxed);
            });
          });
        }
      }
    } catch (...) {
      stopped.store(true, std::memory_order_relaxed);
      throw;
    }
  });
}

}  // namespace icecore::detail
