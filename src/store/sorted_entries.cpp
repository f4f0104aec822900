#include "store/sorted_entries.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include "base/threads.hpp"

namespace icecore::detail {
namespace {

constexpr std::size_t entries_per_bucket = 256;
constexpr std::size_t buckets_max = 4096;  // each has a place that is written to at the same time

/// An entry with its head, so that most comparisons stay in this array.
struct headed {
  std::uint64_t head;
  link entry;
};

/// The 8 bytes behind the first `from`, big-endian, zeros behind the key's end.
std::uint64_t head_of(std::string_view key, std::size_t from) noexcept {
  std::uint64_t head = 0;
  if (from < key.size()) std::memcpy(&head, key.data() + from, std::min(key.size() - from, sizeof head));
  return __builtin_bswap64(head);  // media and machine are little-endian
}

std::size_t common_prefix(std::string_view a, std::string_view b, std::size_t at_most) noexcept {
  const auto end = a.begin() + static_cast<std::ptrdiff_t>(std::min({a.size(), b.size(), at_most}));
  return static_cast<std::size_t>(std::mismatch(a.begin(), end, b.begin()).first - a.begin());
}

/// One sorting: the steps of sort_entries(), each done by all threads before the next begins.
class entry_sort {
 public:
  entry_sort(const survey& found, const address_space& space)
      : parts_(found.parts()), threads_(static_cast<unsigned>(parts_.size())), space_(space) {
    for (const auto& part : parts_) count_ += part.entries.size();
  }

  [[nodiscard]] entries_in_order run() {
    if (count_ == 0) return {};
    take_heads();
    cut_range();
    move_into_buckets();
    sort_buckets();
    return {std::move(result_), of_one_key_};
  }

 private:
  [[nodiscard]] std::string_view key_of(link entry) const noexcept { return space_.record_at(entry).key(); }

  /// What all keys begin with. Heads behind it sort as the keys do, but for ties.
  [[nodiscard]] std::size_t prefix_of_all() const {
    std::string_view first;
    for (const auto& part : parts_) {
      if (!part.entries.empty()) first = key_of(part.entries.front());
    }
    std::vector<std::size_t> prefixes(threads_, first.size());
    run_on_threads(threads_, [&](unsigned t) {
      std::size_t prefix = first.size();
      for (const link e : parts_[t].entries) {
        if (prefix == 0) break;
        prefix = common_prefix(first, key_of(e), prefix);
      }
      prefixes[t] = prefix;
    });
    return std::ranges::min(prefixes);
  }

  void take_heads() {
    const std::size_t prefix = prefix_of_all();
    runs_.resize(threads_);
    std::vector<std::uint64_t> least(threads_, std::numeric_limits<std::uint64_t>::max());
    std::vector<std::uint64_t> greatest(threads_, 0);
    run_on_threads(threads_, [&](unsigned t) {
      auto& run = runs_[t];
      run.reserve(parts_[t].entries.size());
      std::uint64_t low = least[t];
      std::uint64_t high = 0;
      for (const link e : parts_[t].entries) {
        const std::uint64_t head = head_of(key_of(e), prefix);
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

  /// As many buckets as keep each small, and a shift that makes a head's bucket of its distance from the least.
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
    sorted_.resize(count_);
    run_on_threads(threads_, [&](unsigned t) {
      for (const headed& h : runs_[t]) sorted_[places[t][bucket_of(h.head)]++] = h;
      runs_[t] = {};
    });
  }

  void sort_buckets() {
    result_.resize(count_);
    std::atomic<std::size_t> next{0};
    run_on_threads(threads_, [&](unsigned) {
      // relaxed: only shares out numbers
      for (std::size_t b; (b = next.fetch_add(1, std::memory_order_relaxed)) < ends_.size();) {
        sort_bucket(b == 0 ? 0 : ends_[b - 1], ends_[b]);
      }
    });
  }

  /// Equal keys have equal heads, so they are in one bucket.
  void sort_bucket(std::size_t begin, std::size_t end) {
    const auto at = [](std::size_t i) { return static_cast<std::ptrdiff_t>(i); };
    std::sort(sorted_.begin() + at(begin), sorted_.begin() + at(end), [&](const headed& a, const headed& b) {
      if (a.head != b.head) return a.head < b.head;
      return key_of(a.entry) < key_of(b.entry);
    });
    for (std::size_t i = begin; i < end; ++i) {
      result_[i] = sorted_[i].entry;
      const bool tie = i > begin && sorted_[i - 1].head == sorted_[i].head;
      if (!tie || key_of(result_[i - 1]) != key_of(result_[i])) continue;
      const std::scoped_lock lock(twice_mutex_);
      of_one_key_.emplace(result_[i - 1], result_[i]);
    }
  }

  const std::vector<survey_part>& parts_;
  unsigned threads_;
  const address_space& space_;
  std::size_t count_ = 0;
  std::uint64_t least_ = 0;
  std::uint64_t range_ = 0;
  int shift_ = 0;
  std::vector<std::vector<headed>> runs_;  // of each thread, unsorted
  std::vector<headed> sorted_;
  std::vector<std::size_t> ends_;
  std::vector<link> result_;
  std::mutex twice_mutex_;
  std::optional<std::pair<link, link>> of_one_key_;
};

}  // namespace

entries_in_order sort_entries(const survey& found, const address_space& space) {
  return entry_sort(found, space).run();
}

}  // namespace icecore::detail
