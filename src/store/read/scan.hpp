// Walks the index in blocks and overlaps the memory accesses of many keys. All scans are built on it.
//
//   const index::ordered_links& links = in_key_order(engine, kept);
//   for_each_block(engine, links, bounds, [&](std::span<const link> entries) { ...; return true; });
//   std::size_t n = visible_records(engine, entries, version, out);
#pragma once

#include <algorithm>
#include <array>
#include <iterator>
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
[[nodiscard]] std::span<const link> below(const reading_engine<Heads>& core, std::span<const link> entries,
                                          const scan_bounds& bounds) {
  while (!entries.empty() && bounds.beyond(core.key_of(entries.back()))) entries = entries.first(entries.size() - 1);
  return entries;
}

/// Always inlined: GCC drops calls of a function that only prefetches.
[[gnu::always_inline]] inline void prefetch_entries(const store_core& core, std::span<const link> entries) {
  for (const link entry : entries) core.records().space().prefetch(entry);
}

/// Some neighbouring entries in the order of a walk. Reading one of them prefetches one of those that the walk comes to
/// next. So the accesses to memory are spread over the work of a block: a core can have some 20 under way, and a burst
/// of 64 would hold up whatever is read behind it.
class walked_entries {
 public:
  walked_entries() = default;
  /// `coming` is the next block of the walk; both are views of what the walk keeps.
  walked_entries(const store_core& core, std::span<const link> entries, std::span<const link> coming = {}) noexcept
      : space_(&core.records().space()), entries_(entries), coming_(coming) {}

  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] link back() const noexcept { return entries_.back(); }
  /// To be called for one entry after the other.
  [[nodiscard, gnu::always_inline]] link read(std::size_t i) const noexcept {
    if (i < coming_.size()) space_->prefetch(coming_[i]);
    if (i + 1 == entries_.size()) [[unlikely]] {  // the next block may be the larger one
      for (std::size_t rest = i + 1; rest < coming_.size(); ++rest) space_->prefetch(coming_[rest]);
    }
    return entries_[i];
  }

  /// Holds what it reads by value, so that a loop over entries keeps that in registers.
  class iterator;
  [[nodiscard, gnu::always_inline]] iterator begin() const noexcept;
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  const address_space* space_ = nullptr;
  std::span<const link> entries_;
  std::span<const link> coming_;
};

class walked_entries::iterator {
 public:
  [[gnu::always_inline]] explicit iterator(const walked_entries& in) noexcept : in_(in) {}
  [[nodiscard, gnu::always_inline]] link operator*() const noexcept { return in_.read(at_); }
  [[gnu::always_inline]] iterator& operator++() noexcept {
    ++at_;
    return *this;
  }
  [[nodiscard, gnu::always_inline]] bool operator==(std::default_sentinel_t /*end*/) const noexcept {
    return at_ == in_.size();
  }

 private:
  walked_entries in_;
  std::size_t at_ = 0;
};

inline walked_entries::iterator walked_entries::begin() const noexcept { return iterator(*this); }

[[nodiscard]] inline std::span<const link> entries_of(const index::block& b) noexcept {
  return {b.entries.data(), b.size};
}

/// Calls visit(entries, coming) for consecutive blocks until it returns false, beginning with the one that seek(block)
/// finds; `coming` are the entries of the next block.
template <typename Seek, typename Visit>
void walk_blocks(const store_core& core, const index::ordered_links& links, Seek seek, Visit visit) {
  std::array<index::block, 2> blocks;
  seek(blocks[0]);
  prefetch_entries(core, entries_of(blocks[0]));
  for (unsigned now = 0;; now ^= 1U) {
    index::block& after = blocks[now ^ 1U];
    after.size = 0;
    after.next = blocks[now].next;
    const bool more = links.next_block(after);
    if (!visit(entries_of(blocks[now]), entries_of(after)) || !more) return;
  }
}

/// Where the entries of blocks end that lie below an upper bound. The last key of a block is a cache miss that nothing
/// hides, so a long walk finds out once which entry the bound is, and then compares links. A key that is inserted
/// meanwhile between the bound and that entry is not told from the others; it is in no version that is closed already.
/// The link to an entry stays the same. A packed key is met by its entry once somebody writes it, even during the walk;
/// so if the bound is a packed record, keys are compared throughout.
class upper_bound {
 public:
  upper_bound(const index::ordered_links& links, const scan_bounds& bounds) : links_(&links), bounds_(&bounds) {}

  /// Takes off the end of a block's entries what lies beyond; true if that or more was the rest of all.
  template <class Heads>
  bool cut(const reading_engine<Heads>& core, std::span<const link>& entries) {
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
  void find(const reading_engine<Heads>& core) {
    index::block b;
    links_->seek(bounds_->to, b);
    do {
      for (std::size_t i = 0; i < b.size; ++i) {
        if (!bounds_->beyond(core.key_of(b.entries[i]))) continue;
        end_ = b.entries[i];
        if constexpr (reading_engine<Heads>::is_layered) {
          known_ = !is_packed(end_);
        } else {
          known_ = true;
        }
        return;
      }
    } while (links_->next_block(b));
    known_ = true;  // all keys lie below: end_ is null_link
  }

  const index::ordered_links* links_;
  const scan_bounds* bounds_;
  unsigned blocks_ = 0;
  bool known_ = false;
  link end_ = null_link;
};

/// Consecutive parts of links in key order, within bounds, one by one; it can be kept between calls.
class block_walk {
 public:
  /// `bounds` are ascending, and views of what the caller keeps. Each walk is for the same links.
  explicit block_walk(std::vector<scan_bounds> bounds) : bounds_(std::move(bounds)) {}
  block_walk(const block_walk&) = delete;
  block_walk& operator=(const block_walk&) = delete;

  /// Not empty, but at the end; valid until the next call.
  template <class Heads>
  [[nodiscard]] walked_entries next(const reading_engine<Heads>& core, const index::ordered_links& links) {
    while (range_ < bounds_.size()) {
      if (const auto entries = step(core, links, bounds_[range_]); !entries.empty()) return entries;
    }
    return {};
  }

 private:
  /// The next block's entries within the range; goes over to the next range behind its last ones.
  template <class Heads>
  walked_entries step(const reading_engine<Heads>& core, const index::ordered_links& links, const scan_bounds& bounds) {
    if (!end_) {
      end_.emplace(links, bounds);
      begun_ = bounds.from.empty();
      begun_ ? links.seek_first(blocks_[now_]) : links.seek(bounds.from, blocks_[now_]);
      prefetch_entries(core, entries_of(blocks_[now_]));
    } else {
      now_ ^= 1U;
    }
    std::span<const link> entries = entries_of(blocks_[now_]);
    while (!begun_ && !entries.empty() && core.key_of(entries.front()) < bounds.from) entries = entries.subspan(1);
    begun_ = begun_ || !entries.empty();  // all later keys are greater
    index::block& after = blocks_[now_ ^ 1U];
    after.size = 0;
    after.next = blocks_[now_].next;
    if ((!entries.empty() && end_->cut(core, entries)) || !links.next_block(after)) {
      ++range_;
      end_.reset();
    }
    // those of a block that lies before the range are not read one by one
    if (entries.empty()) prefetch_entries(core, entries_of(after));
    return {core, entries, entries_of(after)};
  }

  std::vector<scan_bounds> bounds_;
  std::size_t range_ = 0;
  std::optional<upper_bound> end_;  // of the range that was begun
  bool begun_ = false;              // no later entry lies before the range
  unsigned now_ = 0;
  std::array<index::block, 2> blocks_;
};

/// Calls visit(entries) for consecutive parts of links in key order, within bounds, until it returns false. `entries`
/// are walked_entries.
template <class Heads, typename Visit>
void for_each_block(const reading_engine<Heads>& core, const index::ordered_links& links, const scan_bounds& bounds,
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
void for_each_block(const reading_engine<Heads>& core, const index_part& part, Visit visit) {
  bool begun = part.from == null_link;
  const auto seek = [&](index::block& first) {
    begun ? core.index().seek_first(first) : core.index().seek(core.key_of(part.from), first);
  };
  walk_blocks(core, core.index(), seek, [&](std::span<const link> entries, std::span<const link> coming) {
    if (!begun) {  // the block may begin with smaller keys
      entries = entries.subspan(static_cast<std::size_t>(std::ranges::find(entries, part.from) - entries.begin()));
      begun = !entries.empty();
    }
    const auto end = part.to == null_link ? entries.end() : std::ranges::find(entries, part.to);
    const bool more = end == entries.end();
    entries = entries.first(static_cast<std::size_t>(end - entries.begin()));
    if (!entries.empty()) return visit(walked_entries(core, entries, more ? coming : std::span<const link>())) && more;
    prefetch_entries(core, coming);
    return more;
  });
}

/// Writes the records of `entries` that are visible in version `v` to `out`, in order; returns how many.
template <class Heads>
std::size_t visible_records(const reading_engine<Heads>& core, const walked_entries& entries, version v,
                            std::span<link, index::block::capacity> out) {
  const auto& histories = core.histories();
  std::array<typename reading_engine<Heads>::search_start, index::block::capacity> starts;
  std::size_t started = 0;
  for (const link entry : entries) {
    const link start = histories.start_of(entry, v);
    if (start == null_link) continue;
    if (start != entry) histories.prefetch(start);
    starts[started++] = {entry, start};
  }
  std::size_t n = 0;
  for (std::size_t i = 0; i < started; ++i) {
    if constexpr (reading_engine<Heads>::is_layered) {
      if (is_packed(starts[i].start)) {  // no removal, and nothing is to be made durable
        out[n++] = starts[i].start;
        continue;
      }
    }
    const link l = core.visible_from_start(starts[i], v);
    if (l != null_link) out[n++] = l;
  }
  return n;
}

/// Key and value of a visible record.
template <class Heads>
[[nodiscard]] item item_of(const reading_engine<Heads>& core, link l) {
  if constexpr (reading_engine<Heads>::is_layered) {
    if (is_packed(l)) {
      const stratum::strata& packed = core.histories().packed();
      const auto [key, record] = packed.key_and_record(place_of(l));
      return {key, packed.value_of(record)};
    }
  }
  return {core.histories().key_of_record(l), core.value_of(l)};
}

/// The key of the entry that a visible record belongs to.
template <class Heads>
[[nodiscard]] std::string_view key_of_record(const reading_engine<Heads>& core, link l) {
  return core.histories().key_of_record(l);
}

}  // namespace icecore::detail
