// check(): verifies every invariant of node.hpp. Only while no thread writes.
#include <fmt/format.h>

#include "index/btree/descent.hpp"

namespace icecore::index {

struct btree::audit {
  std::vector<std::string> wrong;
  std::uint64_t links = 0;
  arena_ref leaf_expected = 0;  ///< where the leaf chain leads

  template <class... Args>
  void fail(const node& n, const char* invariant, fmt::format_string<Args...> text, Args&&... args) {
    constexpr std::size_t enough = 100;
    if (wrong.size() >= enough) return;
    wrong.push_back(fmt::format("B+-tree, {} at {}: {}: {}", n.is_leaf() ? "leaf" : "inner node",
                                static_cast<const void*>(&n), invariant,
                                fmt::format(text, std::forward<Args>(args)...)));
  }
};

void btree::check_links(const node& n, audit& a) const {
  const node_form form = n.form.load();
  const link low = n.low.load();
  const link high = n.high.load();
  for (unsigned i = 0; i < form.count; ++i) {
    const link l = n.links[i].load();
    if (l == null_link) {
      a.fail(n, "N4", "link {} of {} is null", i, form.count);
      return;
    }
    const std::string_view key = source_.key_of(l);
    if (i > 0 && !(source_.key_of(n.links[i - 1].load()) < key))
      a.fail(n, "N4", "keys {} and {} do not ascend", i - 1, i);
    if (n.heads[i].load() != head_of(key, form.prefix_length)) a.fail(n, "N4", "head {} is not its key's", i);
    if (form.uniform && key.size() != form.key_size) {
      a.fail(n, "N7", "key {} has {} bytes, not {}", i, key.size(), form.key_size);
    }
    if (low != null_link && key < source_.key_of(low)) a.fail(n, "N1", "key {} is below the node's range", i);
    if (high != null_link && key >= source_.key_of(high)) a.fail(n, "N1", "key {} is above the node's range", i);
    if (form.open && common_prefix(key, source_.key_of(n.links[0].load())) < form.prefix_length) {
      a.fail(n, "N3", "key {} lacks the prefix of {} bytes", i, form.prefix_length);
    }
  }
  for (unsigned i = form.count; i < slot_count; ++i) {
    if (n.heads[i].load() != no_head) a.fail(n, "N4", "head {} is set, but the node has only {} links", i, form.count);
  }
}

void btree::check_node(const node& n, audit& a) const {
  const node_form form = n.form.load();
  const link low = n.low.load();
  const link high = n.high.load();
  if (optimistic_lock::is_locked(n.lock.peek())) a.fail(n, "lock", "is still locked");
  if (form.open != (low == null_link || high == null_link))
    a.fail(n, "N1", "marked open but has both fences, or marked closed but lacks one");
  if (!form.open && common_prefix(source_.key_of(low), source_.key_of(high)) < form.prefix_length) {
    a.fail(n, "N3", "the fences do not share the prefix of {} bytes", form.prefix_length);
  }
  const unsigned count_max = form.level == 0 ? slot_count : separator_count_max;
  if (form.count > count_max) {
    a.fail(n, "N4", "has {} links, but at most {} fit", form.count, count_max);
    return;
  }
  check_links(n, a);
  if (form.level == 0) {
    if (low != null_link && (form.count == 0 || n.links[0].load() != low))
      a.fail(n, "N2", "its first link is not its lower fence");
    if (ref_of(&n) != a.leaf_expected) a.fail(n, "N6", "the leaf before it does not lead to it");
    a.leaf_expected = n.next.load();
    a.links += form.count;
    return;
  }
  for (unsigned i = 0; i <= form.count; ++i) {
    const arena_ref ref = static_cast<const inner_node&>(n).children[i].load();
    if (ref == 0) {
      a.fail(n, "N5", "child {} of {} is missing", i, form.count + 1);
      continue;
    }
    const node& child = *at(ref);
    if (child.form.load().level + 1 != form.level) {
      a.fail(n, "N5", "child {} has level {}, not {}", i, child.form.load().level, form.level - 1);
      continue;
    }
    const link child_low = i == 0 ? low : n.links[i - 1].load();
    const link child_high = i == form.count ? high : n.links[i].load();
    if (child.low.load() != child_low || child.high.load() != child_high) {
      a.fail(n, "N5", "the fences of child {} are not the separators beside it", i);
    }
    check_node(child, a);
  }
}

std::vector<std::string> btree::check() const {
  audit a;
  a.leaf_expected = shared_->first_leaf;
  const node& top = *root().at;
  if (top.low.load() != null_link || top.high.load() != null_link) a.fail(top, "N1", "the root has a fence");
  check_node(top, a);
  if (a.leaf_expected != 0) a.fail(top, "N6", "the leaf chain goes on behind the last leaf");
  if (a.links != size()) a.fail(top, "size", "the leaves have {} links, but the count is {}", a.links, size());
  return std::move(a.wrong);
}

}  // namespace icecore::index
