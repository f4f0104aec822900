// Blocks: the links of one leaf, copied at one instant, and how to get from one to the next.
//
// Why X3 holds. A leaf never disappears and its low never changes (N1). Links and `next` are copied under the same
// validated word, so at that instant next.low was this leaf's high. So the copy covers its leaf's part of the key space
// up to next.low. The next leaf still begins there whenever it is read later, however often either leaf has been split
// since: a split moves only a leaf's upper part, into a new leaf that the leaf's own next then leads to. So a walk by
// `next` meets each link once. A backward walk goes by keys: the block before k ends with the greatest link below k at
// one instant, and the next step asks for what is below that block's first link. So it misses nothing and meets nothing
// twice. A block that was cut off at k is continued by its last link's key, not by the leaf, again without a gap.
#include <algorithm>
#include <utility>

#include "index/btree/descent.hpp"
#include "index/cut_block.hpp"
#include "index/evenly_chosen.hpp"

namespace icecore::index {
namespace {

// What block::next holds: 0 at the end; twice the reference of the leaf that comes next; or what index/cut_block.hpp
// says.
constexpr std::uint64_t leaf_next(arena_ref leaf) noexcept { return std::uint64_t{leaf} << 1; }
constexpr arena_ref leaf_of(std::uint64_t next) noexcept { return static_cast<arena_ref>(next >> 1); }

}  // namespace

/// Copies the links [first, end) of a leaf. False if a writer came between.
bool btree::read_leaf(const view& leaf, unsigned first, unsigned end, block& out) const noexcept {
  const node& n = *leaf.at;
  const unsigned count = n.form.load().count;
  const unsigned behind = std::min(end, count);
  std::size_t size = 0;
  for (unsigned i = first; i < behind; ++i) out.entries[size++] = n.links[i].load();
  const arena_ref next = n.next.load();
  if (!leaf.validate()) return false;
  out.size = size;
  out.next = behind == count ? leaf_next(next) : size != 0 ? behind_next(out.entries[size - 1]) : 0;
  if (next != 0) prefetch_for_scan(arena_.at(next));
  return true;
}

/// Makes `out` the block from the first link behind `key` (or at it, if `at_key`) to the end of its leaf.
void btree::read_from(std::string_view key, bool at_key, block& out) const {
  const sought_key sought(key);
  for (backoff wait;; wait.pause()) {
    const path where = try_descend<side::right, stop::leaf>(sought);
    if (where.node.at == nullptr) continue;
    const place found = lower_bound(*where.node.at, where.form, sought, source_);
    const unsigned first = found.slot + (found.equal != null_link && !at_key ? 1U : 0U);
    if (read_leaf(where.node, first, slot_count, out)) break;
  }
  if (out.size == 0) next_block(out);
}

void btree::seek(std::string_view key, block& out) const { read_from(key, true, out); }

void btree::seek_first(block& out) const {
  node* first = at(shared_->first_leaf);
  for (backoff wait; !read_leaf({first, free_word(*first)}, 0, slot_count, out); wait.pause()) {
  }
}

void btree::seek_last(block& out) const {
  for (backoff wait;; wait.pause()) {
    view here = root();
    for (;;) {
      const node_form form = here.at->form.load();
      if (form.level == 0) break;
      const arena_ref ref = static_cast<const inner_node&>(*here.at).children[form.count].load();
      if (ref == 0) break;  // torn
      const view child{at(ref), free_word(*at(ref))};
      if (!here.validate()) break;
      here = child;
    }
    if (here.at->is_leaf() && read_leaf(here, 0, slot_count, out)) return;
  }
}

bool btree::next_block(block& b) const {
  if (b.next == 0) {
    b.size = 0;
    return false;
  }
  if (is_behind(b.next)) {
    read_from(source_.key_of(link_before(b.next)), false, b);
    return b.size != 0;
  }
  node* n = at(leaf_of(b.next));
  for (backoff wait; !read_leaf({n, free_word(*n)}, 0, slot_count, b); wait.pause()) {
  }
  // Prefetch the leaf after the next one, too: the next one's header came with an earlier prefetch. This is only a
  // hint, so the load is not validated.
  const arena_ref after = b.next != 0 ? at(leaf_of(b.next))->next.load() : 0;
  if (after != 0) prefetch_for_scan(arena_.at(after));
  return true;
}

bool btree::block_before(std::string_view key, block& out) const {
  const sought_key sought(key);
  for (backoff wait;; wait.pause()) {
    const path where = try_descend<side::left, stop::leaf>(sought);
    if (where.node.at == nullptr) continue;
    const unsigned end = lower_bound(*where.node.at, where.form, sought, source_).slot;
    if (read_leaf(where.node, 0, end, out)) break;
  }
  // side::left led to the leaf whose low is below `key`, and a leaf holds its low (N2): only the leftmost leaf can have
  // nothing.
  return out.size != 0;
}

/// Appends the links of a subtree down to `level` to `out`, in order: separators if `level` is above 0, entries if it
/// is 0.
void btree::collect(arena_ref ref, unsigned level, std::vector<link>& out) const {
  const node& n = *at(ref);
  std::array<link, slot_count> links;
  std::array<arena_ref, slot_count> children;
  node_form form;
  for (backoff wait;; wait.pause()) {
    const std::uint64_t seen = free_word(n);
    form = n.form.load();
    for (unsigned i = 0; i < form.count; ++i) links[i] = n.links[i].load();
    if (form.level > level) {
      for (unsigned i = 0; i <= form.count; ++i) children[i] = static_cast<const inner_node&>(n).children[i].load();
    }
    if (n.lock.validate(seen)) break;
  }
  for (unsigned i = 0; i <= form.count; ++i) {
    if (form.level > level) collect(children[i], level, out);
    // A leaf's first link is already there: it is the separator above the leaf.
    const bool again = form.level == 0 && i == 0 && !out.empty() && out.back() == links[0];
    if (i < form.count && !again) out.push_back(links[i]);
  }
}

std::vector<link> btree::split_points(std::size_t count) const {
  // Subtrees differ in size, by at most a factor of two except at the edges; 16 times as many cuts even that out.
  constexpr std::size_t finer = 16;
  std::vector<link> candidates;
  const view top = root();
  unsigned level = top.at->form.load().level;
  for (;; --level) {
    candidates.clear();
    collect(ref_of(top.at), level, candidates);
    if (level == 0 || candidates.size() >= count * finer) break;
  }
  return evenly_chosen(std::move(candidates), count);
}

}  // namespace icecore::index
