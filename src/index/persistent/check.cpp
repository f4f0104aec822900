// check(): whether every node keeps the invariants of node.hpp. Only while no thread writes.
#include <fmt/format.h>

#include <algorithm>

#include "index/persistent/descent.hpp"

namespace icecore::index {

struct persistent_index::audit {
  std::vector<std::string> wrong;
  std::vector<link> children;  ///< of the level that was checked last, in the order of the pairs that lead to them
  std::vector<link> nodes;     ///< of all levels
  std::uint64_t entries = 0;

  template <typename... Arguments>
  void note(link node, fmt::format_string<Arguments...> what, Arguments&&... arguments) {
    constexpr std::size_t notes_max = 1000;
    if (wrong.size() >= notes_max) return;
    wrong.push_back(fmt::format("node at byte {}: {}", link_offset(node),
                                fmt::format(what, std::forward<Arguments>(arguments)...)));
  }
};

void persistent_index::check_level(link first, unsigned level, audit& a) const {
  std::vector<link> children;
  std::size_t children_found = 0;  // how many of a.children were found in this level
  link expected_low = null_link;
  std::string_view last;
  bool any = false;
  for (link ref = first; ref != null_link;) {
    const view v = look_at(ref);
    const index_node& n = *v.at;
    a.nodes.push_back(ref);
    const node_order order(n);
    const link low = n.low.load(std::memory_order_relaxed);  // relaxed, all: no thread writes
    const link high = n.high.load(std::memory_order_relaxed);
    const link next = n.next.load(std::memory_order_relaxed);
    if (node_word::check(v.seen) != check_of(n, space_.seed_of(ref))) a.note(ref, "its checksum is wrong");
    if (order.level() != level) a.note(ref, "has level {}, not {}", order.level(), level);
    if (low != expected_low) a.note(ref, "its lower bound is not its left neighbour's upper bound (N1)");
    if ((high == null_link) != (next == null_link))
      a.note(ref, "has an upper bound but no right neighbour, or a right neighbour but no upper bound (N1)");
    if (order.prefix_length() > 0) {
      if (low == null_link || high == null_link)
        a.note(ref, "has a prefix but lacks a bound (N3)");
      else if (common_prefix(source_.key_of(low), source_.key_of(high)) < order.prefix_length())
        a.note(ref, "its prefix is longer than the one that its bounds share (N3)");
    }
    if (high != null_link &&
        n.high_head.load(std::memory_order_relaxed) != head_of(source_.key_of(high), order.prefix_length()))
      a.note(ref, "the head of its upper bound is wrong");
    for (unsigned i = 0; i < node_order::words * 8 - 5; ++i) {
      if (i < order.count() ? order.byte(i) >= index_pairs_max : order.byte(i) != node_order::no_slot)
        a.note(ref, "order byte {} has the wrong value {} (N4)", i, order.byte(i));
    }
    for (unsigned i = 0; i < order.count(); ++i) {
      const link to = to_at(n, order, i);
      const link least = low_of(to, level);
      if (level == 0) {
        ++a.entries;
      } else {
        children.push_back(to);
      }
      if (least == null_link) {
        if (ref != first || i != 0 || level == 0)
          a.note(ref, "pair {} leads to no entry, or to a node without a lower bound (N5)", i);
        any = false;
        continue;
      }
      if (!source_.is_readable(least)) {  // in a node that has not been checked yet
        a.note(ref, "pair {} leads to a node whose lower bound points outside the store (N2)", i);
        any = false;
        continue;
      }
      const std::string_view key = source_.key_of(least);
      if (head_at(n, order, i) != head_of(key, order.prefix_length())) a.note(ref, "head {} is not its key's (N4)", i);
      if (any && key <= last) a.note(ref, "key {} is not greater than the one before (N4)", i);
      if (i == 0 && low != null_link && least != low)
        a.note(ref, "its first pair does not lead to its lower bound (N2)");
      if (high != null_link && key >= source_.key_of(high)) a.note(ref, "key {} is not below the upper bound (N1)", i);
      last = key;
      any = true;
    }
    if (children_found < a.children.size() && a.children[children_found] == ref) ++children_found;
    expected_low = high;
    ref = next;
  }
  if (children_found != a.children.size())
    a.note(first, "the level above leads to nodes that are not in this level's list (N5)");
  a.children = std::move(children);
}

std::vector<std::string> persistent_index::lost_nodes() const {
  audit a;
  check_levels(a);
  a.wrong.clear();
  std::ranges::sort(a.nodes);
  for (unsigned i = 0; i < node_space::tag_source; ++i) {
    const format::node_source& source = space_.anchor().nodes[i];
    // relaxed, all: no thread writes
    const link end = space_.load(source.end, std::memory_order_relaxed);
    const link position = space_.load(source.position, std::memory_order_relaxed);
    const link pending = space_.decode(source.pending.load(std::memory_order_relaxed) & ~format::pending_in_use,
                                       space_.place_of(source.pending));
    if (end == null_link || position > end) continue;
    const node_segment segment(end);
    for (link at = segment.first(); at < position; at = segment.behind(at)) {
      if (at != pending && !std::ranges::binary_search(a.nodes, at))
        a.note(at, "was given out, but is in no level of the index");
    }
  }
  return a.wrong;
}

std::vector<std::string> persistent_index::check() const {
  audit a;
  check_levels(a);
  return a.wrong;
}

void persistent_index::check_levels(audit& a) const {
  link first = top().ref;
  for (unsigned level = node_order(*top().at).level() + 1; level-- > 0;) {
    check_level(first, level, a);
    if (level > 0) {
      if (a.children.empty()) {
        a.note(first, "no pair of this level leads to a node");
        return;
      }
      first = a.children.front();
    }
  }
  if (first != space_.load(space_.anchor().first_leaf, std::memory_order_relaxed))
    a.note(first, "is not the leaf that the anchor names as the first");
  if (a.entries != size())
    a.wrong.push_back(fmt::format("the leaves lead to {} entries, but the count is {}", a.entries, size()));
}

}  // namespace icecore::index
