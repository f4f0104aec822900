// Splits: where a node is cut, and how the right part gets a node of its own and a slot in the parent.
//
// Memory is allocated before any lock is taken, so bad_alloc leaves the tree as it was and no reader waits for the
// kernel.
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "index/btree/btree.hpp"

namespace icecore::index {

/// A node taken for a split; it goes back to the free list unless it was used.
class btree::unused_node {
 public:
  unused_node(btree& tree, bool leaf) : tree_(tree), ref_(tree.take_node(leaf)), leaf_(leaf) {}
  ~unused_node() {
    if (ref_ != 0) tree_.give_back(ref_, leaf_);
  }
  unused_node(const unused_node&) = delete;
  unused_node& operator=(const unused_node&) = delete;

  [[nodiscard]] arena_ref use() noexcept { return std::exchange(ref_, 0); }

 private:
  btree& tree_;
  arena_ref ref_;
  bool leaf_;
};

/// What a split does.
struct btree::cut {
  unsigned slot;       ///< links from here on go to the right
  link separator;      ///< low of the right node
  std::uint64_t head;  ///< of the separator, in a node
  node_form form;      ///< of this form: that of the node that is cut
  bool adds = false;   ///< a leaf is cut at its end: the separator is a new entry, alone in the right leaf
};

arena_ref btree::take_node(bool leaf) {
  const arena_ref reused = shared_->free_nodes[leaf ? 1 : 0].take([&](arena_ref ref) { return at(ref)->next.load(); });
  if (reused != 0) return reused;
  const arena_ref ref = arena_.allocate(leaf ? sizeof(node) : sizeof(inner_node));
  new (arena_.at(ref)) node(0, null_link, null_link);  // also touches its pages while no lock is held
  return ref;
}

void btree::give_back(arena_ref ref, bool leaf) noexcept {
  shared_->free_nodes[leaf ? 1 : 0].give(ref, [&](arena_ref one, arena_ref next) { at(one)->next.store(next); });
}

/// False if a writer came between. `where.node` is a full inner node on the path of the insert of `key`.
bool btree::split_inner(path where, const sought_key& key) {
  const node& n = *where.node.at;
  const node_form form = where.form;
  // Ascending keys only ever add at the end of the last node: leave the left node full.
  const bool at_end = n.high.load() == null_link && lower_bound(n, form, key, source_).slot == form.count;
  const unsigned slot = at_end ? form.count - 2U : form.count / 2U;
  const link separator = n.links[slot].load();
  if (separator == null_link) return false;  // torn
  return split<inner_node>(where, {.slot = slot, .separator = separator, .head = n.heads[slot].load(), .form = form});
}

/// True if `entry` has been added. False if a writer came between, or if the leaf was split and the insert must start
/// again. `slot` is where the entry belongs in the full leaf.
bool btree::split_leaf(path where, unsigned slot, const sought_key& key, link entry) {
  const node& n = *where.node.at;
  node_form form = where.form;
  const unsigned at = n.cut_for_insert(slot);
  if (at == slot_count) {
    if (compare_with_prefix(n, key.bytes, source_) != 0) form.prefix_length = 0;
    form.count = 0;
    form.admit_size(true, key.bytes.size());
    const std::uint64_t head = key.head_behind(form.prefix_length);
    return split<node>(where, {.slot = at, .separator = entry, .head = head, .form = form, .adds = true});
  }
  const link separator = n.links[at].load();
  if (separator == null_link) return false;  // torn
  (void)split<node>(where, {.slot = at, .separator = separator, .head = n.heads[at].load(), .form = form});
  return false;
}

template <class Node>
bool btree::split(const path& where, const cut& c) {
  node& left = *where.node.at;
  constexpr bool is_leaf = std::is_same_v<Node, node>;
  unused_node right_memory(*this, is_leaf);
  std::optional<unused_node> root_memory;
  if (where.parent.at == nullptr) root_memory.emplace(*this, false);

  // Parent first, then child. No thread waits for either, and both are held until the parent has its new child (N5).
  write_guard parent_guard;
  const unsigned process = arena_.process();
  if (where.parent.at != nullptr && !parent_guard.try_upgrade(where.parent.at->lock, where.parent.seen, process))
    return false;
  const write_guard guard(left.lock, where.node.seen, process);
  if (!guard.holds()) return false;

  const node_form form = left.form.load();
  const arena_ref right_ref = right_memory.use();
  Node& right = *new (arena_.at(right_ref)) Node(form.level, c.separator, left.high.load());
  // An inner node's separator moves up; a leaf's first link stays where it is (N2).
  const unsigned first = is_leaf ? c.slot : c.slot + 1;
  const unsigned moved = form.count - first;
  if constexpr (!is_leaf) {
    for (unsigned i = 0; i <= moved; ++i) right.children[i].store(static_cast<Node&>(left).children[first + i].load());
  }
  right.take_slots(left, first, form);
  if (c.adds) {
    node_form alone = c.form;
    alone.count = 1;
    alone.open = right.form.load().open;
    right.heads[0].store(c.head);
    right.links[0].store(c.separator);
    right.form.store(alone);
  }
  right.next.store(left.next.load());

  left.drop_slots(c.slot);
  left.high.store(c.separator);
  if constexpr (is_leaf) left.next.store(right_ref);
  left.refresh_open();
  refresh_prefix(left, form.open);
  refresh_prefix(right, form.open);

  if (where.parent.at != nullptr) {
    add_child(static_cast<inner_node&>(*where.parent.at), where.child_slot, c, right_ref);
    return true;
  }
  const arena_ref root_ref = root_memory->use();
  auto& root = *new (arena_.at(root_ref)) inner_node(static_cast<std::uint8_t>(form.level + 1), null_link, null_link);
  root.children[0].store(ref_of(&left));
  add_child(root, 0, c, right_ref);
  // Release: publishes the new root, before the old one is unlocked (see root()).
  shared_->root.store(root_ref, std::memory_order_release);
  return true;
}

/// Makes `child` the right neighbour of children[slot]. Inside the parent's lock.
void btree::add_child(inner_node& parent, unsigned slot, const cut& c, arena_ref child) noexcept {
  node_form form = parent.form.load();
  std::uint64_t head = c.head;
  if (form.prefix_length != c.form.prefix_length || (form.open && form.prefix_length != 0)) {
    const std::string_view key = source_.key_of(c.separator);
    admit_to_prefix(parent, key);
    form = parent.form.load();
    head = head_of(key, form.prefix_length);
  }
  parent.make_room(slot, form.count);
  for (unsigned i = form.count + 1U; i > slot + 1; --i) parent.children[i].store(parent.children[i - 1].load());
  parent.heads[slot].store(head);
  parent.links[slot].store(c.separator);
  parent.children[slot + 1].store(child);
  form.admit_size(c.form.uniform, c.form.key_size);
  ++form.count;
  parent.form.store(form);
  const bool ties = (slot > 0 && parent.heads[slot - 1].load() == head) ||
                    (slot + 1U < form.count && parent.heads[slot + 1].load() == head);
  if (ties) refresh_prefix(parent, form.open);
}

}  // namespace icecore::index
