// Walks the index in blocks and overlaps the memory accesses of many keys. All scans are built on it.
//
//   const index::ordered_links& links = in_key_order(engine, kept);
//   for_each_block(engine, links, bounds, [&](std::span<const link> entries) { ...; return true; });
//   std::size_t n = visible_records(engine, entries, version, out);
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "store/engine.hpp"
#include "store/read/sorted_keys.hpp"

namespace icecore::detail {

/// The store behind a pin. Throws if it is closed or cannot be read any more.
[[nodiscard]] inline const store_core& usable_core(const pin& holds) {
  const store_core& core = holds.core();
  core.check_usable();
  return core;
}

/// The bounds of one part of a scan, as views. The empty key is the smallest, so an empty `from` is no bound.
struct scan_bounds {
  std::string_view from{};
  std::string_view to{};
  bool bounded_above = false;
  bool of_closed_version = false;  ///< what is looked for cannot be inserted any more

  scan_bounds() = default;
  explicit scan_bounds(const key_bounds& bounds) : bounded_above(bounds.to.has_value()) {
    if (bounds.from) from = *bounds.from;
    if (bounds.to) to = *bounds.to;
  }
  [[nodiscard]] bool beyond(std::string_view key) const noexcept { return bounded_above && key >= to; }
};

template <class Heads>
[[nodiscard]] std::span<const link> below(const engine<Heads>& core, std::span<const link> entries,
                                          const scan_bounds& bounds) {
  while (!entries.empty() && bounds.beyond(core.key_of(entries.back()))) entries = entries.first(entries.size() - 1);
  return entries;
}

/// The entries of a block that lie within bounds. Keys are compared one by one only in blocks at an end of the bounds.
template <class Heads>
[[nodiscard]] std::span<const link> within(const engine<Heads>& core, const index::block& b,
                                           const scan_bounds& bounds) {
  std::span<const link> entries(b.entries.data(), b.size);
  if (!bounds.from.empty()) {
    while (!entries.empty() && core.key_of(entries.front()) < bounds.from) entries = entries.subspan(1);
  }
  return below(core, entries, bounds);
}

/// Always inlined: GCC drops calls of a function that only prefetches.
[[gnu::always_inline]] inline void prefetch_entries(const store_core& core, const index::block& b) {
  for (std::size_t i = 0; i < b.size; ++i) __builtin_prefetch(core.records().space().at(b.entries[i]));
}

/// Calls visit(block) for consecutive blocks until it returns false, beginning with the one that seek(block) finds.
/// Prefetches the entries of the next block meanwhile.
template <typename Seek, typename Visit>
void walk_blocks(const store_core& core, const index::ordered_links& links, Seek seek, Visit visit) {
  std::array<index::block, 2> blocks;
  seek(blocks[0]);
  prefetch_entries(core, blocks[0]);
  for (unsigned now = 0;; now ^= 1U) {
    index::block& after = blocks[now ^ 1U];
    after.size = 0;
    after.next = blocks[now].next;
    const bool more = links.next_block(after);
    if (more) prefetch_entries(core, after);
    if (!visit(blocks[now]) || !more) return;
  }
}

/// Where the entries of blocks end that lie below an upper bound. The last key of a block is a cache miss that nothing
/// hides, so a long walk finds out once which entry the bound is, and then compares links. A key that is inserted
/// meanwhile between the bound and that entry is not told from the others; it is in no version that is closed already.
class upper_bound {
 public:
  upper_bound(const index::ordered_links& links, const scan_bounds& bounds) : links_(&links), bounds_(&bounds) {}

  /// Takes off the end of a block's entries what lies beyond; true if that or more was the rest of all.
  template <class Heads>
  bool cut(const engine<Heads>& core, std::span<const link>& entries) {
    if (!bounds_->bounded_above) return false;
    if (known_) return cut_by_link(entries);
    const std::size_t all = entries.size();
    entries = below(core, entries, *bounds_);
    const bool ends = entries.size() != all;
    constexpr unsigned blocks_by_key = 4;
    if (!ends && bounds_->of_closed_version && ++blocks_ == blocks_by_key) find(core);
    return ends;
  }

 private:
  bool cut_by_link(std::span<const link>& entries) const {
    const auto at = std::ranges::find(entries, end_);
    if (at == entries.end()) return false;
    entries = entries.first(static_cast<std::size_t>(at - entries.begin()));
    return true;
  }
  template <class Heads>
  void find(const engine<Heads>& core) {
    known_ = true;
    index::block b;
    links_->seek(bounds_->to, b);
    do {
      for (std::size_t i = 0; i < b.size; ++i) {
        end_ = b.entries[i];
        if (bounds_->beyond(core.key_of(end_))) return;
      }
    } while (links_->next_block(b));
    end_ = null_link;  // all keys lie below
  }

  const index::ordered_links* links_;
  const scan_bounds* bounds_;
  unsigned blocks_ = 0;
  bool known_ = false;
  link end_ = null_link;
};

/// Consecutive parts of links in key order, within bounds, one by one; it can be kept between calls. Prefetches the
/// entries of the next block.
class block_walk {
 public:
  /// `bounds` are ascending, and views of what the caller keeps. Each walk is for the same links.
  explicit block_walk(std::vector<scan_bounds> bounds) : bounds_(std::move(bounds)) {}
  block_walk(const block_walk&) = delete;
  block_walk& operator=(const block_walk&) = delete;

  /// Not empty, but at the end; valid until the next call.
  template <class Heads>
  [[nodiscard]] std::span<const link> next(const engine<Heads>& core, const index::ordered_links& links) {
    while (range_ < bounds_.size()) {
      if (const auto entries = step(core, links, bounds_[range_]); !entries.empty()) return entries;
    }
    return {};
  }

 private:
  /// The next block's entries within the range; goes over to the next range behind its last ones.
  template <class Heads>
  std::span<const link> step(const engine<Heads>& core, const index::ordered_links& links, const scan_bounds& bounds) {
    if (!end_) {
      end_.emplace(links, bounds);
      begun_ = bounds.from.empty();
      begun_ ? links.seek_first(blocks_[now_]) : links.seek(bounds.from, blocks_[now_]);
      prefetch_entries(core, blocks_[now_]);
    } else {
      now_ ^= 1U;
    }
    const index::block& block = blocks_[now_];
    std::span<const link> entries(block.entries.data(), block.size);
    while (!begun_ && !entries.empty() && core.key_of(entries.front()) < bounds.from) entries = entries.subspan(1);
    begun_ = begun_ || !entries.empty();  // all later keys are greater
    if ((!entries.empty() && end_->cut(core, entries)) || !look_ahead(core, links)) {
      ++range_;
      end_.reset();
    }
    return entries;
  }
  template <class Heads>
  bool look_ahead(const engine<Heads>& core, const index::ordered_links& links) {
    index::block& after = blocks_[now_ ^ 1U];
    after.size = 0;
    after.next = blocks_[now_].next;
    const bool more = links.next_block(after);
    if (more) prefetch_entries(core, after);
    return more;
  }

  std::vector<scan_bounds> bounds_;
  std::size_t range_ = 0;
  std::optional<upper_bound> end_;  // of the range that was begun
  bool begun_ = false;              // no later entry lies before the range
  unsigned now_ = 0;
  std::array<index::block, 2> blocks_;
};

/// Calls visit(entries) for consecutive parts of links in key order, within bounds, until it returns false.
template <class Heads, typename Visit>
void for_each_block(const engine<Heads>& core, const index::ordered_links& links, const scan_bounds& bounds,
                    Visit visit) {
  block_walk walk({bounds});
  for (auto entries = walk.next(core, links); !entries.empty(); entries = walk.next(core, links)) {
    if (!visit(entries)) return;
  }
}

/// A part of an index in its own order, whatever that is: from one entry to before another.
struct index_part {
  link from = null_link;  ///< null_link: from the first
  link to = null_link;    ///< null_link: to the last
};

/// Calls visit(entries) for consecutive parts of the index in its own order, until it returns false.
template <class Heads, typename Visit>
void for_each_block(const engine<Heads>& core, const index_part& part, Visit visit) {
  bool begun = part.from == null_link;
  const auto seek = [&](index::block& first) {
    begun ? core.index().seek_first(first) : core.index().seek(core.key_of(part.from), first);
  };
  walk_blocks(core, core.index(), seek, [&](const index::block& b) {
    std::span<const link> entries(b.entries.data(), b.size);
    if (!begun) {  // the block may begin with smaller keys
      entries = entries.subspan(static_cast<std::size_t>(std::ranges::find(entries, part.from) - entries.begin()));
      begun = !entries.empty();
    }
    const auto end = part.to == null_link ? entries.end() : std::ranges::find(entries, part.to);
    const bool more = end == entries.end();
    entries = entries.first(static_cast<std::size_t>(end - entries.begin()));
    return (entries.empty() || visit(entries)) && more;
  });
}

/// Writes the records of `entries` that are visible in version `v` to `out`, in order; returns how many.
template <class Heads>
std::size_t visible_records(const engine<Heads>& core, std::span<const link> entries, version v,
                            std::span<link, index::block::capacity> out) {
  const auto& histories = core.histories();
  std::array<link, index::block::capacity> starts;
  std::size_t started = 0;
  for (const link entry : entries) {
    const link start = histories.start_of(entry, v);
    if (start == null_link) continue;
    if (start != entry) __builtin_prefetch(histories.at(start).address());
    starts[started++] = start;
  }
  std::size_t n = 0;
  for (std::size_t i = 0; i < started; ++i) {
    const link l = core.visible_from(starts[i], v);
    if (l != null_link) out[n++] = l;
  }
  return n;
}

/// The key of the entry that a visible record belongs to. A record that is the entry itself is known to be intact.
template <class Heads>
[[nodiscard]] std::string_view key_of_record(const engine<Heads>& core, link l) {
  const record r = core.histories().at(l);
  return r.is_entry() ? r.key() : core.key_of(r.as_update().entry);
}

}  // namespace icecore::detail
