// Building from links in order, and checking.
//
// A list that is built is perfectly balanced: tower i (from 0) is on level l if 4^l divides i + 1. So each tower's
// successors and their positions in the arena follow from its number alone, and threads divide the towers among them.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>

#include "base/threads.hpp"
#include "index/skip_list/skip_list.hpp"

namespace icecore::index {
namespace {

/// The distance between towers of a level.
constexpr std::uint64_t stride_of(unsigned level) noexcept { return std::uint64_t{1} << (2 * level); }

constexpr unsigned height_of_built(std::uint64_t i) noexcept {
  return std::min(1 + static_cast<unsigned>(std::countr_zero(i + 1)) / 2, height_max);
}

/// The most levels of a tower that takes one unit of the arena; taller ones take two.
constexpr unsigned small_height_max = 11;
static_assert(tower::bytes_of(small_height_max) == arena::unit_bytes &&
              tower::bytes_of(small_height_max + 1) == 2 * arena::unit_bytes &&
              tower::bytes_of(height_max) == 2 * arena::unit_bytes);

/// Arena units that the first `count` towers take.
constexpr std::uint64_t units_of(std::uint64_t count) noexcept { return count + count / stride_of(small_height_max); }

}  // namespace

void skip_list::build(std::span<const link> sorted, unsigned threads) {
  assert(size() == 0);
  if (sorted.empty()) return;
  const std::uint64_t count = sorted.size();
  const arena_ref base = arena_.allocate(units_of(count) * arena::unit_bytes);
  const unsigned parts = std::max(1U, threads);
  run_on_threads(parts, [&](unsigned part) { fill(sorted, base, count * part / parts, count * (part + 1) / parts); });
  unsigned highest = 1;
  for (unsigned level = 0; level < height_max && stride_of(level) <= count; ++level) {
    at(first_).set_next(level, static_cast<arena_ref>(base + units_of(stride_of(level) - 1)));
    highest = level + 1;
  }
  // The end of build() publishes everything: no other function is called before it.
  raise_height(highest);
  shared_->size.add(count);
}

/// Makes the towers [begin, end) of the list of `sorted`, whose first is at `base`.
void skip_list::fill(std::span<const link> sorted, arena_ref base, std::uint64_t begin,
                     std::uint64_t end) const noexcept {
  constexpr std::size_t ahead = 24;  // entries that are prefetched while one is read
  for (std::uint64_t i = begin; i < end; ++i) {
    if (i + ahead < sorted.size()) source_.prefetch(sorted[i + ahead]);
    tower& t = at(static_cast<arena_ref>(base + units_of(i)));
    const std::string_view key = source_.key_of(sorted[i]);
    t.head = head_of(key);
    t.entry = sorted[i];
    t.key_size = static_cast<std::uint16_t>(key.size());
    t.height = static_cast<std::uint16_t>(height_of_built(i));
    for (unsigned level = 0; level < t.height; ++level) {
      const std::uint64_t next = ((i + 1) / stride_of(level) + 1) * stride_of(level) - 1;
      t.set_next(level, next < sorted.size() ? static_cast<arena_ref>(base + units_of(next)) : 0);
    }
  }
}

std::vector<std::string> skip_list::check() const {
  constexpr std::size_t enough = 100;
  std::vector<std::string> wrong;
  const auto fail = [&](arena_ref where, unsigned level, std::string_view what) {
    if (wrong.size() < enough) wrong.push_back(fmt::format("skip list, tower {} on level {}: {}", where, level, what));
  };
  std::uint64_t towers = 0;
  for (unsigned level = 0; level < height_max; ++level) {
    arena_ref below = at(first_).next(level == 0 ? 0 : level - 1);
    for (arena_ref here = at(first_).next(level); here != 0; here = at(here).next(level)) {
      const tower& t = at(here);
      if (t.height <= level || t.height > height_max) {
        fail(here, level, fmt::format("K1: its height {} is impossible", t.height));
        break;  // its successor on this level is not a reference
      }
      const std::string_view key = source_.key_of(t.entry);
      const arena_ref behind = t.next(level);
      if (behind != 0 && !(key < source_.key_of(at(behind).entry)))
        fail(here, level, "K1: its successor's key is not greater");
      if (level == 0) {
        ++towers;
        if (t.head != head_of(key) || t.key_size != key.size())
          fail(here, level, "K2: its head or key size is not that of its key");
        continue;
      }
      while (below != 0 && below != here) below = at(below).next(level - 1);
      if (below == 0) {
        fail(here, level, "K1: it is not on the level below");
        break;
      }
    }
  }
  if (towers != size()) wrong.push_back(fmt::format("skip list: {} towers, but the count is {}", towers, size()));
  return wrong;
}

}  // namespace icecore::index
