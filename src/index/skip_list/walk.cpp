// Blocks: some neighbouring links, copied from level 0.
//
// Why X3 holds. A block's `next` is the tower behind its last link when that was read. Towers are never unlinked, so
// the walk continues there however many towers were linked since: those between the two were not there when the walk
// began, or it would have met them. A backward walk goes by keys: the block before k ends with the last tower before k.
#include <algorithm>
#include <utility>

#include "index/evenly_chosen.hpp"
#include "index/skip_list/skip_list.hpp"

namespace icecore::index {

/// Copies the links from tower `first` (0: none) on.
void skip_list::read_from(arena_ref first, block& out) const noexcept {
  arena_ref here = first;
  out.size = 0;
  while (here != 0 && out.size < block::capacity) {
    const tower& t = at(here);
    here = t.next(0);
    if (here != 0) __builtin_prefetch(&at(here));
    out.entries[out.size++] = t.entry;
  }
  out.next = here;
}

void skip_list::seek(std::string_view key, block& out) const noexcept { read_from(lower_bound(sought_key(key)), out); }

void skip_list::seek_first(block& out) const noexcept { read_from(at(first_).next(0), out); }

bool skip_list::next_block(block& b) const noexcept {
  read_from(static_cast<arena_ref>(b.next), b);
  return b.size != 0;
}

/// Copies the last links before `key`, or before the end if it is null; false if there are none.
bool skip_list::read_before(const sought_key* key, block& out) const noexcept {
  // Level 2 leads to a tower about ten links before, level 4 to one about a hundred before.
  constexpr unsigned levels_up[] = {2, 4};
  for (const unsigned level : levels_up) {
    std::array<link, block::capacity> last;
    std::size_t count = 0;
    arena_ref here = last_before(key, level);
    const bool at_beginning = here == first_;
    if (at_beginning) here = at(here).next(0);
    while (here != 0 && (key == nullptr || compare(*key, at(here), source_) > 0)) {
      last[count++ % block::capacity] = at(here).entry;
      here = at(here).next(0);
    }
    // too few links for the cost: start from a higher level
    if (count < block::capacity / 4 && !at_beginning && level != levels_up[1]) continue;
    out.size = std::min(count, block::capacity);
    const std::size_t oldest = count - out.size;
    for (std::size_t i = 0; i < out.size; ++i) out.entries[i] = last[(oldest + i) % block::capacity];
    out.next = here;
    break;
  }
  return out.size != 0;
}

void skip_list::seek_last(block& out) const noexcept { (void)read_before(nullptr, out); }

bool skip_list::block_before(std::string_view key, block& out) const noexcept {
  const sought_key sought(key);
  return read_before(&sought, out);
}

std::vector<link> skip_list::split_points(std::size_t count) const {
  // The towers of a level divide the keys evenly enough if there are many times more than requested.
  constexpr std::size_t finer = 16;
  std::vector<link> candidates;
  for (unsigned level = height(); level-- > 0;) {
    candidates.clear();
    for (arena_ref here = at(first_).next(level); here != 0; here = at(here).next(level)) {
      candidates.push_back(at(here).entry);
    }
    if (candidates.size() >= count * finer) break;
  }
  return evenly_chosen(std::move(candidates), count);
}

}  // namespace icecore::index
