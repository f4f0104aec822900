// How every operation gets from the top to a node of a level. It holds no lock on the way: a node never goes away, and
// what a split moves to the right is found there (N6).
#pragma once

#include "index/persistent/persistent_index.hpp"

namespace icecore::index {

inline persistent_index::view persistent_index::top() const {
  return look_at(shared_->top.load(std::memory_order_acquire));  // acquire: the node's contents are visible
}

/// One step of a descent to `level`, down or to the right; true if `here` is the node.
template <persistent_index::side equal>
bool persistent_index::go_down(view& here, std::string_view key, unsigned level) const {
  if (here.seen == 0) {
    const bool promotes = here.promotes;
    here = look_at(here.ref);
    here.promotes = promotes;
  }
  const index_node& n = *here.at;
  const node_order order(n);
  const bool there = order.level() == level;
  if (is_beyond(n, order, key, equal, false)) {
    if (!move_right(here)) look_again(here);
    return false;
  }
  if (there) {
    if (here.validate()) return true;
    look_again(here);
    return false;
  }
  const link child = to_at(n, order, child_for(n, order, key, equal));
  if (child == null_link || !here.validate()) {
    look_again(here);
    return false;
  }
  prefetch_node(space_.bytes(child));
  // looked at in the next step: find_many() has other keys to advance meanwhile
  here = {&space_.at(child), child, 0, here.promotes};
  return false;
}

/// The node of `level` that spans `key` (with side::left, the keys just below it), or one to its left: see is_beyond().
/// Precondition: the top is not below `level`.
template <persistent_index::side equal>
persistent_index::view persistent_index::descend(std::string_view key, unsigned level, bool promotes) const {
  view here = top();
  here.promotes = promotes;
  while (!go_down<equal>(here, key, level)) {
  }
  return here;
}

}  // namespace icecore::index
