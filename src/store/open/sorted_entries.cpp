#include "store/open/sorted_entries.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "base/key_head.hpp"
#include "base/threads.hpp"

namespace icecore::detail {
namespace {

constexpr std::size_t entries_per_bucket = 256;
constexpr std::size_t buckets_max = 4096;  // each has a position that is written at the same time
constexpr std::size_t crowd_min = 16 * entries_per_bucket;
constexpr std::size_t crowd_share = 16;  // a bucket with more than 1/crowd_share of the entries is crowded
constexpr unsigned crowd_levels = 8;     // crowded buckets within crowded ones: bounds the memory and the passes
constexpr std::size_t ties_min = 16;     // fewer entries with one head are sorted by their keys
constexpr unsigned tie_levels = 8;       // ties within ties: bounds the passes

/// An entry with its head, so that most comparisons stay in this array.
struct headed {
  std::uint64_t head;
  link entry;
};

/// Sorts by heads: cuts their range into as many even places as there are entries, so that about one comes to each if
/// they spread evenly, and sorts what comes to the same place. The memory is reused.
class head_sort {
 public:
  void operator()(std::span<headed> entries) {
    constexpr std::size_t worth_it = 64;
    if (entries.size() < worth_it) return by_comparing(entries);
    std::uint64_t least = entries.front().head;
    std::uint64_t greatest = least;
    for (const headed& h : entries) {
      least = std::min(least, h.head);
      greatest = std::max(greatest, h.head);
    }
    const int bits =
        static_cast<int>(std::bit_width(greatest - least)) - static_cast<int>(std::bit_width(entries.size()));
    const int shift = std::max(bits, 0);
    const auto place_of = [&](const headed& h) { return static_cast<std::size_t>((h.head - least) >> shift); };
    ends_.assign(static_cast<std::size_t>((greatest - least) >> shift) + 2, 0);
    for (const headed& h : entries) ++ends_[place_of(h) + 1];
    for (std::size_t i = 1; i < ends_.size(); ++i) ends_[i] += ends_[i - 1];
    moved_.assign(entries.begin(), entries.end());
    for (const headed& h : moved_) entries[ends_[place_of(h)]++] = h;
    std::size_t begin = 0;
    for (const std::size_t end : std::span(ends_).first(ends_.size() - 1)) {
      if (end - begin > 1) by_comparing(entries.subspan(begin, end - begin));
      begin = end;
    }
  }

 private:
  static void by_comparing(std::span<headed> entries) { std::ranges::sort(entries, {}, &headed::head); }

  std::vector<std::size_t> ends_;
  std::vector<headed> moved_;
};

/// One sort: the steps of sort_entries(). All threads finish a step before the next one begins.
class entry_sort {
 public:
  /// `parts`: the entries that each thread begins with, as views of memory that outlives this. `common`: the number of
  /// bytes that all keys are known to share. `levels`: how deep crowded buckets are sorted as sets of their own.
  entry_sort(const address_space& space, std::vector<std::span<const link>> parts, std::size_t common, unsigned levels)
      : space_(space),
        parts_(std::move(parts)),
        threads_(static_cast<unsigned>(parts_.size())),
        levels_(levels),
        prefix_(common) {
    for (const auto& part : parts_) count_ += part.size();
  }

  /// Writes the entries to `out`, which has room for exactly them.
  void run(std::span<link> out) {
    if (count_ == 0) return;
    find_prefix();
    take_heads();
    cut_range();
    move_into_buckets();
    sort_buckets(out);
  }

  [[nodiscard]] const std::optional<std::pair<link, link>>& of_one_key() const noexcept { return of_one_key_; }

 private:
  [[nodiscard]] std::string_view key_of(link entry) const noexcept { return space_.record_at(entry).key(); }

  /// Finds the prefix that all keys share. Heads behind it sort as the keys do, except for ties.
  void find_prefix() {
    std::string_view first;
    for (const auto& part : parts_) {
      if (!part.empty()) first = key_of(part.front());
    }
    std::vector<std::size_t> prefixes(threads_, first.size());
    run_on_threads(threads_, [&](unsigned t) {
      std::size_t prefix = first.size();
      for (const link e : parts_[t]) {
        if (prefix <= prefix_) break;
        prefix = common_prefix(first.substr(0, prefix), key_of(e));
      }
      prefixes[t] = prefix;
    });
    prefix_ = std::ranges::min(prefixes);
  }

  void take_heads() {
    runs_.resize(threads_);
    std::vector<std::uint64_t> least(threads_, std::numeric_limits<std::uint64_t>::max());
    std::vector<std::uint64_t> greatest(threads_, 0);
    run_on_threads(threads_, [&](unsigned t) {
      auto& run = runs_[t];
      run.reserve(parts_[t].size());
      std::uint64_t low = least[t];
      std::uint64_t high = 0;
      for (const link e : parts_[t]) {
        const std::uint64_t head = head_of(key_of(e), prefix_);
        low = std::min(low, head);
        high = std::max(high, head);
        run.push_back({head, e});
      }
      least[t] = low;
      greatest[t] = high;
    });
    least_ = std::ranges::min(least);
    range_ = std::ranges::max(greatest) - least_;
  }

  /// Chooses enough buckets to keep each small, and a shift that turns a head's distance from the least into its
  /// bucket.
  void cut_range() {
    const std::size_t wanted = std::clamp<std::size_t>(std::bit_floor(count_ / entries_per_bucket), 1, buckets_max);
    const int bits = static_cast<int>(std::bit_width(range_)) - static_cast<int>(std::bit_width(wanted - 1));
    shift_ = std::clamp(bits, 0, 63);
    ends_.assign(bucket_of(least_ + range_) + 1, 0);
  }
  [[nodiscard]] std::size_t bucket_of(std::uint64_t head) const noexcept {
    return static_cast<std::size_t>((head - least_) >> shift_);
  }

  /// Counts, then moves: after this ends_[b] is where bucket b ends in sorted_.
  void move_into_buckets() {
    const std::size_t buckets = ends_.size();
    std::vector<std::vector<std::size_t>> places(threads_, std::vector<std::size_t>(buckets, 0));
    run_on_threads(threads_, [&](unsigned t) {
      for (const headed& h : runs_[t]) ++places[t][bucket_of(h.head)];
    });
    std::size_t at = 0;
    for (std::size_t b = 0; b < buckets; ++b) {
      for (unsigned t = 0; t < threads_; ++t) at += std::exchange(places[t][b], at);
      ends_[b] = at;
    }
    sorted_ = std::make_unique_for_overwrite<headed[]>(count_);  // its pages are touched by all threads
    run_on_threads(threads_, [&](unsigned t) {
      for (const headed& h : runs_[t]) sorted_[places[t][bucket_of(h.head)]++] = h;
      std::vector<headed>().swap(runs_[t]);
    });
  }

  /// Crowded buckets, whose keys share more than all keys do, are sorted by all threads as sets of their own; then the
  /// other buckets, by one thread each.
  void sort_buckets(std::span<link> out) {
    const auto begin_of = [&](std::size_t b) { return b == 0 ? 0 : ends_[b - 1]; };
    const auto crowded = [&](std::size_t b) {
      const std::size_t size = ends_[b] - begin_of(b);
      return levels_ > 0 && size > crowd_min && size > count_ / crowd_share && size < count_;
    };
    for (std::size_t b = 0; b < ends_.size(); ++b) {
      if (crowded(b)) sort_crowd(begin_of(b), out.subspan(begin_of(b), ends_[b] - begin_of(b)));
    }
    std::atomic<std::size_t> next{0};
    run_on_threads(threads_, [&](unsigned) {
      head_sort by_heads;
      // relaxed: only hands out numbers
      for (std::size_t b; (b = next.fetch_add(1, std::memory_order_relaxed)) < ends_.size();) {
        if (!crowded(b)) sort_bucket(begin_of(b), ends_[b], out, by_heads);
      }
    });
  }

  void sort_crowd(std::size_t begin, std::span<link> out) {
    std::vector<link> entries(out.size());
    for (std::size_t i = 0; i < entries.size(); ++i) entries[i] = sorted_[begin + i].entry;
    std::vector<std::span<const link>> parts;
    for (std::size_t t = 0; t < threads_; ++t) {
      const std::size_t from = entries.size() * t / threads_;
      parts.push_back(std::span<const link>(entries).subspan(from, entries.size() * (t + 1) / threads_ - from));
    }
    entry_sort crowd(space_, std::move(parts), prefix_, levels_ - 1);
    crowd.run(out);
    if (crowd.of_one_key_) of_one_key_ = crowd.of_one_key_;
  }

  /// Equal keys have equal heads, so they are in one bucket, and next to each other once it is sorted.
  void sort_bucket(std::size_t begin, std::size_t end, std::span<link> out, head_sort& by_heads) {
    sort_by_heads(std::span(sorted_.get() + begin, end - begin), prefix_, tie_levels, by_heads);
    for (std::size_t i = begin; i < end; ++i) {
      out[i] = sorted_[i].entry;
      const bool tie = i > begin && sorted_[i - 1].head == sorted_[i].head;
      if (!tie || key_of(out[i - 1]) != key_of(out[i])) continue;
      const std::scoped_lock lock(twice_mutex_);
      of_one_key_.emplace(out[i - 1], out[i]);
    }
  }

  /// Sorts entries whose heads lie behind `prefix`.
  void sort_by_heads(std::span<headed> entries, std::size_t prefix, unsigned levels, head_sort& by_heads) const {
    by_heads(entries);
    for (std::size_t begin = 0, end; begin < entries.size(); begin = end) {
      end = begin + 1;
      while (end < entries.size() && entries[end].head == entries[begin].head) ++end;
      if (end - begin > 1) sort_ties(entries.subspan(begin, end - begin), prefix, levels, by_heads);
    }
  }

  /// Many ties get heads behind what their keys share: then each key is read twice, and not at each comparison.
  void sort_ties(std::span<headed> ties, std::size_t prefix, unsigned levels, head_sort& by_heads) const {
    std::size_t common = prefix;
    if (levels > 0 && ties.size() >= ties_min) {
      const std::string_view first = key_of(ties.front().entry);
      common = first.size();
      for (const headed& h : ties) common = common_prefix(first.substr(0, common), key_of(h.entry));
    }
    if (common == prefix) {
      std::ranges::sort(ties, {}, [&](const headed& h) { return key_of(h.entry); });
      return;
    }
    for (headed& h : ties) h.head = head_of(key_of(h.entry), common);
    sort_by_heads(ties, common, levels - 1, by_heads);
  }

  const address_space& space_;
  std::vector<std::span<const link>> parts_;
  unsigned threads_;
  unsigned levels_;
  std::size_t prefix_;
  std::size_t count_ = 0;
  std::uint64_t least_ = 0;
  std::uint64_t range_ = 0;
  int shift_ = 0;
  std::vector<std::vector<headed>> runs_;  // of each thread, unsorted
  std::unique_ptr<headed[]> sorted_;
  std::vector<std::size_t> ends_;
  std::mutex twice_mutex_;
  std::optional<std::pair<link, link>> of_one_key_;
};

}  // namespace

entries_in_order sort_entries(const record_scan& found, const address_space& space) {
  std::vector<std::span<const link>> parts;
  for (const auto& part : found.parts()) parts.emplace_back(part.entries);
  return sort_entries(std::move(parts), space);
}

entries_in_order sort_entries(std::vector<std::span<const link>> parts, const address_space& space) {
  entries_in_order result;
  std::size_t count = 0;
  for (const auto& part : parts) count += part.size();
  result.entries.resize(count);
  entry_sort all(space, std::move(parts), 0, crowd_levels);
  all.run(result.entries);
  result.of_one_key = all.of_one_key();
  return result;
}

}  // namespace icecore::detail
