// Blocks: the links of one leaf, copied at one instant, and how to get from one to the next. X3 holds as in the B+-tree
// (index/btree/walk.cpp): links and `next` are copied under one validated word, a leaf never goes away, its low never
// changes, and a split hands its upper part to a leaf that the leaf's own next then leads to.
#include <array>

#include "index/cut_block.hpp"
#include "index/evenly_chosen.hpp"
#include "index/persistent/descent.hpp"

namespace icecore::index {

// block::next is 0 at the end, the leaf that comes next, or what index/cut_block.hpp says.

/// Copies the links [first, end) of a leaf. False if a writer came between.
bool persistent_index::read_leaf(const view& leaf, unsigned first, unsigned end, block& out) const {
  static_assert(index_pairs_max <= block::capacity, "a leaf must fit into a block");
  const node_order order(*leaf.at);
  const unsigned behind = std::min(end, order.count());
  std::size_t size = 0;
  for (unsigned i = first; i < behind; ++i) out.entries[size++] = to_at(*leaf.at, order, i);
  const link next = leaf.at->next.load(std::memory_order_acquire);
  if (!leaf.validate()) return false;
  out.size = size;
  out.next = behind == order.count() ? next : size != 0 ? behind_next(out.entries[size - 1]) : 0;
  if (next != null_link) prefetch_node(space_.bytes(next));
  return true;
}

/// Makes `out` the block from the first link behind `key` (or at it, if `at_key`) to the end of its leaf.
void persistent_index::read_from(std::string_view key, bool at_key, block& out) const {
  view here = descend<side::right>(key, 0);
  for (;;) {
    const node_order order(*here.at);
    const place found = lower_bound(here, order, key);
    if (is_beyond(*here.at, order, key, side::right, true)) {
      if (!move_right(here)) look_again(here);
      continue;
    }
    const unsigned first = found.index + (found.equal != null_link && !at_key ? 1U : 0U);
    if (read_leaf(here, first, index_pairs_max, out)) break;
    look_again(here);
  }
  if (out.size == 0) next_block(out);
}

void persistent_index::seek(std::string_view key, block& out) const { read_from(key, true, out); }

void persistent_index::seek_first(block& out) const {
  view first = look_at(space_.load(space_.anchor().first_leaf, std::memory_order_relaxed));
  while (!read_leaf(first, 0, index_pairs_max, out)) look_again(first);
}

void persistent_index::seek_last(block& out) const {
  view here = top();
  for (;;) {
    const node_order order(*here.at);
    const link next = here.at->next.load(std::memory_order_acquire);
    const link last = order.count() == 0 ? null_link : to_at(*here.at, order, order.count() - 1);
    if (!here.validate()) {
      look_again(here);
    } else if (next != null_link) {
      here = look_at(next);
    } else if (order.level() > 0) {
      here = look_at(last);
    } else if (read_leaf(here, 0, index_pairs_max, out)) {
      return;
    } else {
      look_again(here);
    }
  }
}

bool persistent_index::next_block(block& b) const {
  if (b.next == 0) {
    b.size = 0;
    return false;
  }
  if (is_behind(b.next)) {
    source_.verify_key(link_before(b.next));
    read_from(source_.key_of(link_before(b.next)), false, b);
    return b.size != 0;
  }
  view leaf = look_at(b.next);
  while (!read_leaf(leaf, 0, index_pairs_max, b)) look_again(leaf);
  return true;
}

bool persistent_index::block_before(std::string_view key, block& out) const {
  view here = descend<side::left>(key, 0);
  for (;;) {
    const node_order order(*here.at);
    if (is_beyond(*here.at, order, key, side::left, true)) {
      if (!move_right(here)) look_again(here);
      continue;
    }
    if (read_leaf(here, 0, lower_bound(here, order, key).index, out)) break;
    look_again(here);
  }
  // side::left led to the leaf whose low is below `key`, and a leaf holds its low (N2): only the first leaf can have
  // nothing.
  return out.size != 0;
}

std::vector<link> persistent_index::split_points(std::size_t count) const {
  constexpr std::size_t finer = 16;  // as in the B+-tree
  std::vector<link> lows;
  view first = top();
  for (;;) {
    lows.clear();
    unsigned level = 0;
    link below = null_link;
    for (view here = first;;) {
      const node_order order(*here.at);
      std::array<link, index_pairs_max> to{};
      for (unsigned i = 0; i < order.count(); ++i) to[i] = to_at(*here.at, order, i);
      const link next = here.at->next.load(std::memory_order_acquire);
      if (!here.validate()) {
        look_again(here);
        continue;
      }
      level = order.level();
      if (here.ref == first.ref) below = to[0];
      for (unsigned i = 0; i < order.count(); ++i) {
        const link low = low_of(to[i], level);
        if (low != null_link) lows.push_back(low);
      }
      if (next == null_link) break;
      here = look_at(next);
    }
    if (level == 0 || lows.size() >= count * finer) break;
    first = look_at(below);
  }
  return evenly_chosen(std::move(lows), count);
}

}  // namespace icecore::index
