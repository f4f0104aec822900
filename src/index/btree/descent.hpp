// How every operation gets from the root to its leaf: optimistic lock coupling.
//
// A child's lock word is read before its parent is validated. A split changes child and parent while it holds both
// locks. So if the parent has not changed since its own word was read, the child spanned the key when the child's word
// was read. If the child validates against that word later, it still spanned the key then.
#pragma once

#include "index/btree/btree.hpp"

namespace icecore::index {

inline btree::view btree::root() const {
  for (;;) {
    // Acquire: the node's contents are visible.
    const arena_ref ref = shared_->root.load(std::memory_order_acquire);
    node* n = at(ref);
    const std::uint64_t seen = free_word(*n);
    // A split of the root stores the new root before it unlocks the old one. So if this is still the root after its
    // word was read, the word is the root's. Relaxed: reading the word acquired what was stored before the unlock.
    if (shared_->root.load(std::memory_order_relaxed) == ref) return {n, seen};
  }
}

/// From the root to the leaf that spans `key` (with side::left, the keys just below it).
template <btree::side equal, btree::stop until>
inline btree::path btree::try_descend(const sought_key& key) const {
  view parent;
  view here = root();
  unsigned child_slot = 0;
  for (;;) {
    const node& n = *here.at;
    const node_form form = n.form.load();
    const bool full = until == stop::full_inner && form.count == separator_count_max;
    if (form.level == 0 || full) {
      if (form.level != 0 && !here.validate()) return {};
      return {parent, here, form, child_slot};
    }
    const place found = lower_bound(n, form, key, source_);
    const unsigned slot = found.slot + (equal == side::right && found.equal != null_link ? 1U : 0U);
    const arena_ref ref = static_cast<const inner_node&>(n).children[slot].load();
    if (ref == 0) return {};  // torn
    prefetch_for_search(arena_.at(ref), form.level - 1U);
    const view child{at(ref), free_word(*at(ref))};
    if (!here.validate()) return {};
    parent = here;
    here = child;
    child_slot = slot;
  }
}

}  // namespace icecore::index
