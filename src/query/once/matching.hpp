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
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
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
  bool block(const walked_entries& entries, std::size_t at_once, const Visit& visit) {
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

/// Whether each range is of one key. Keys that cannot be are none.
[[nodiscard]] inline bool are_single_keys(const std::vector<key_range>& ranges) noexcept {
  return std::ranges::all_of(ranges, [](const key_range& r) {
    return r.to && r.to->size() == r.from.size() + 1 && r.to->back() == '\0' && r.to->starts_with(r.from);
  });
}

/// Links in key order that hold all keys of the ranges. If the index has another order, it looks up the keys if they
/// are single ones, and else sorts all.
template <class Engine>
[[nodiscard]] const index::ordered_links& in_key_order_within(const Engine& engine,
                                                              const std::vector<key_range>& ranges,
                                                              std::shared_ptr<const sorted_keys>& kept,
                                                              unsigned threads = 1) {
  if (kept == nullptr && !engine.index().orders_keys() && engine.packed() == nullptr && are_single_keys(ranges)) {
    std::vector<link> found;
    for (const key_range& r : ranges) {
      if (const link entry = engine.index().find(r.from); entry != null_link) found.push_back(entry);
    }
    kept = std::make_shared<const sorted_keys>(engine, std::move(found));
  }
  return in_key_order(engine, kept, threads);
}

/// In which order the keys of a part come.
enum class keys_come { in_key_order, in_any_order };

/// Keys in key order, in parts for threads, each within bounds. The views are those of the ranges and of the pool.
template <class Engine>
class key_ordered_parts {
 public:
  key_ordered_parts(const Engine& engine, const std::vector<key_range>& ranges, unsigned threads)
      : engine_(&engine), ranges_(&ranges), links_(&in_key_order_within(engine, ranges, kept_, threads)), parts_(1) {
    if (threads <= 1) return;
    for (const link l : links_->split_points(std::size_t{threads} * parts_of_thread)) {
      const std::string_view key = engine.key_of(l);
      parts_.back().to = key;
      parts_.back().bounded_above = true;
      parts_.emplace_back().from = key;
    }
  }
  [[nodiscard]] std::size_t size() const noexcept { return parts_.size(); }
  template <typename Visit>
  void for_each_block_of(std::size_t part, const Visit& visit) const {
    for (const scan_bounds& bounds : within_ranges(*ranges_, parts_[part])) {
      for_each_block(*engine_, *links_, bounds, visit);
    }
  }

  static constexpr unsigned parts_of_thread = 8;

 private:
  const Engine* engine_;
  const std::vector<key_range>* ranges_;
  std::shared_ptr<const sorted_keys> kept_;
  const index::ordered_links* links_;
  std::vector<scan_bounds> parts_;
};

/// All keys in the index's own order, in parts for threads. Whether a key is in the filter's ranges is left to the
/// filter, which is true for no other.
template <class Engine>
class index_ordered_parts {
 public:
  index_ordered_parts(const Engine& engine, unsigned threads) : engine_(&engine), cuts_{null_link} {
    if (threads > 1) {
      const std::size_t wanted = std::size_t{threads} * key_ordered_parts<Engine>::parts_of_thread;
      for (const link l : engine.index().split_points(wanted)) cuts_.push_back(l);
    }
    cuts_.push_back(null_link);
  }
  [[nodiscard]] std::size_t size() const noexcept { return cuts_.size() - 1; }
  template <typename Visit>
  void for_each_block_of(std::size_t part, const Visit& visit) const {
    for_each_block(*engine_, index_part{cuts_[part], cuts_[part + 1]}, visit);
  }

 private:
  const Engine* engine_;
  std::vector<link> cuts_;
};

/// Calls make(part count), then on the threads visit(part, rows, mask, memory), in order within a part.
template <class Engine, class Parts, typename Make, typename Visit>
void visit_matches_of(const Engine& engine, const Parts& parts, version at, const filter_program& where, needs_of reads,
                      unsigned threads, const Make& make, const Visit& visit) {
  make(parts.size());
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stopped{false};
  run_on_threads(std::min(threads, static_cast<unsigned>(parts.size())), [&](unsigned) {
    matching<Engine> found(engine, at, where, reads);
    try {
      // relaxed: a work counter and a hint; joining the threads orders what they hand over
      for (std::size_t p; (p = next.fetch_add(1, std::memory_order_relaxed)) < parts.size();) {
        parts.for_each_block_of(p, [&](const walked_entries& entries) {
          return found.block(entries, rows_max, [&](const rows& block, const auto& test) {
            if (const row_mask mask = test(); mask != 0) visit(p, block, mask, found.memory());
            return !stopped.load(std::memory_order_relaxed);
          });
        });
      }
    } catch (...) {
      stopped.store(true, std::memory_order_relaxed);
      throw;
    }
  });
}

/// Cuts the keys that can match into parts for threads, and visits these.
template <class Engine, typename Make, typename Visit>
void visit_matches(const Engine& engine, version at, const filter_program& where, needs_of reads, unsigned threads,
                   keys_come order, const Make& make, const Visit& visit) {
  const std::vector<key_range> ranges = where.key_ranges();
  const bool index_has_all = engine.packed() == nullptr;
  if (order == keys_come::in_any_order && index_has_all && !engine.index().orders_keys() && !are_single_keys(ranges)) {
    visit_matches_of(engine, index_ordered_parts<Engine>(engine, threads), at, where, reads, threads, make, visit);
  } else {
    visit_matches_of(engine, key_ordered_parts<Engine>(engine, ranges, threads), at, where, reads, threads, make,
                     visit);
  }
}

}  // namespace icecore::detail
