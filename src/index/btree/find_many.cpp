// find_many: a group of keys descends the tree together, so that their waits for memory overlap.
//
// Each step ends with a prefetch of what the same key's next step reads. When that step's turn comes, the other keys'
// steps have hidden the wait. Anything unusual (a locked node, a change, equal heads) is left to find(), which handles
// every case.
#include <algorithm>
#include <array>
#include <cassert>

#include "index/btree/descent.hpp"

namespace icecore::index {
namespace {

/// Waits that overlap: about as many as a core can have misses in flight.
constexpr std::size_t group_size = 16;

}  // namespace

struct btree::lookup {
  view parent;
  view here;
  const guarded<link>* found = nullptr;  ///< where the candidate lies; its line is prefetched
  link candidate = null_link;
  bool exact = false;  ///< the candidate's key is certainly equal
  bool smooth = true;  ///< nothing unusual was met so far

  /// Reads the lock word of a node that the step before chose and prefetched.
  [[nodiscard]] bool arrive() noexcept {
    here.seen = here.at->lock.peek();
    // As in try_descend(): the child's word first, then the parent's.
    return !optimistic_lock::is_locked(here.seen) && parent.validate();
  }
};

void btree::find_many(std::span<const std::string_view> keys, std::span<link> out) const {
  assert(keys.size() <= out.size());
  for (std::size_t first = 0; first < keys.size(); first += group_size) {
    const std::size_t size = std::min(group_size, keys.size() - first);
    find_group(keys.subspan(first, size), out.subspan(first, size));
  }
}

void btree::find_group(std::span<const std::string_view> keys, std::span<link> out) const {
  std::array<lookup, group_size> lookups;
  const std::span group(lookups.data(), keys.size());
  const view top = root();
  for (lookup& l : group) l.here = top;

  for (unsigned level = top.at->form.load().level; level > 0; --level) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (group[i].smooth) group[i].smooth = step_down(group[i], sought_key(keys[i]));
    }
  }
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (group[i].smooth) group[i].smooth = search_leaf(group[i], sought_key(keys[i]));
  }
  for (lookup& l : group) {
    if (l.smooth && l.found != nullptr) l.smooth = take_candidate(l);
  }
  for (std::size_t i = 0; i < group.size(); ++i) {
    const lookup& l = group[i];
    if (!l.smooth) {
      out[i] = find(keys[i]);
      if (out[i] != null_link) source_.prefetch(out[i]);
    } else {
      const bool equal = l.candidate != null_link && (l.exact || source_.key_of(l.candidate) == keys[i]);
      out[i] = equal ? l.candidate : null_link;
    }
  }
}

bool btree::step_down(lookup& l, const sought_key& key) const noexcept {
  if (l.parent.at != nullptr && !l.arrive()) return false;
  const node_form form = l.here.at->form.load();
  const place found = lower_bound(*l.here.at, form, key, source_);
  const unsigned slot = found.slot + (found.equal != null_link ? 1U : 0U);
  const arena_ref child = static_cast<const inner_node&>(*l.here.at).children[slot].load();
  if (child == 0) return false;  // torn
  // Of a leaf only what leads to the one line of links that is read next: fewer lines allow more keys at a time.
  if (form.level == 1) {
    prefetch_lines<0, offsetof(node, links)>(arena_.at(child));
  } else {
    prefetch_for_search(arena_.at(child), form.level - 1U);
  }
  l.parent = l.here;
  l.here.at = at(child);
  return true;
}

/// Finds the only link whose head is the key's.
bool btree::search_leaf(lookup& l, const sought_key& key) const noexcept {
  if (l.parent.at != nullptr && !l.arrive()) return false;
  const node& n = *l.here.at;
  const node_form form = n.form.load();
  if (form.open && form.prefix_length != 0) return false;  // needs a comparison with another key first
  const std::uint64_t head = key.head_behind(form.prefix_length);
  const unsigned slot = count_smaller(n.heads, head);
  if (slot >= form.count || n.heads[slot].load() != head) return l.here.validate();
  if (slot + 1 < form.count && n.heads[slot + 1].load() == head) return false;
  l.exact = form.heads_are_exact_for(key.bytes);
  l.found = &n.links[slot];
  __builtin_prefetch(l.found);
  return true;
}

bool btree::take_candidate(lookup& l) const noexcept {
  l.candidate = l.found->load();
  if (!l.here.validate()) return false;
  source_.prefetch(l.candidate);
  return true;
}

}  // namespace icecore::index
