// Changes: adding a pair, splitting a node, adding a level on top.
//
// The order of stores and fences makes a crash harmless; persistent_index.hpp says what each prefix of them leaves.
#include <algorithm>
#include <cassert>

#include "base/locks/fence.hpp"
#include "index/persistent/descent.hpp"

namespace icecore::index {
namespace {

/// Where to split a full node so that a pair at `index` gets room. The lowest slots are given out first, so a node
/// filled by ascending keys has them in order: then it stays full, and later keys go to the right.
unsigned cut_of(const node_order& order, unsigned index) noexcept {
  constexpr unsigned stream_min = 8;
  if (index == index_pairs_max) {
    unsigned run = 0;
    while (run < stream_min && order.slot(index_pairs_max - 1 - run) == index_pairs_max - 1 - run) ++run;
    if (run == stream_min) return index_pairs_max - 1;
  }
  return index_pairs_max / 2;
}

}  // namespace

/// False if another thread has changed the node since it was read.
bool persistent_index::try_lock(view& v) const noexcept {
  const std::uint64_t locked = node_word::lock(v.seen, space_.epoch(), space_.process());
  shared_->holders.enter();
  // acquire and seq_cst: as optimistic_lock::try_upgrade()
  if (v.at->lock.compare_exchange_strong(v.seen, locked, std::memory_order_seq_cst, std::memory_order_relaxed))
    return true;
  shared_->holders.leave();
  return false;
}

/// Also flushes the node's first line.
void persistent_index::unlock(index_node& n, link ref) const noexcept {
  const std::uint64_t word = n.lock.load(std::memory_order_relaxed);  // relaxed: this thread wrote it last
  // release: a thread that reads the new word sees what was stored inside
  n.lock.store(node_word::unlock(word, check_of(n, space_.seed_of(ref))), std::memory_order_release);
  shared_->holders.leave();
  space_.flush(&n, format::cache_line_size);
}

/// Adds a pair to a locked node with room, and unlocks it. A leaf's entry is flushed already (index.hpp,
/// before_publish()).
void persistent_index::add_pair(index_node& n, link ref, node_order order, unsigned index, std::uint64_t head,
                                link to) const noexcept {
  const unsigned slot = order.free_slot();
  // release, both: see node_lock.hpp
  n.pairs[slot].head.store(head, std::memory_order_release);
  n.pairs[slot].to.store(to, std::memory_order_release);
  space_.flush(&n.pairs[slot], sizeof n.pairs[slot]);
  space_.fence();  // the pair is durable before the order words show it
  order.insert(index, slot);
  order.store_in(n);
  unlock(n, ref);
}

/// How many bytes the keys between two keys have in common, if it helps to leave them out of heads; else `at_least`.
unsigned persistent_index::prefix_between(link low, link high, std::uint64_t at_least) const noexcept {
  if (low == null_link || high == null_link) return static_cast<unsigned>(at_least);
  const std::string_view a = source_.key_of(low);
  const std::string_view b = source_.key_of(high);
  if (std::max(a.size(), b.size()) <= at_least + sizeof(std::uint64_t)) return static_cast<unsigned>(at_least);
  return static_cast<unsigned>(std::max<std::uint64_t>(common_prefix(a, b), at_least));
}

/// For a node that is about to be split: verifies the keys that become bounds and, if these change the node's heads,
/// all other keys, from which the heads are computed. What was read while another thread changed the node is not used,
/// but it belonged to the index once.
void persistent_index::verify_bounds(const index_node& n, unsigned cut) const {
  const std::uint64_t word = n.lock.load(std::memory_order_acquire);  // acquire: see node_lock.hpp
  const node_order order(n);
  if (order.count() <= cut)
    return;  // another thread was faster: behind the count there are no pairs, and try_lock() fails
  const unsigned prefix = order.prefix_length();
  const auto verify_pair = [&](unsigned i) {
    const link low = low_of(to_at(n, order, i), order.level());
    if (low == null_link) return;
    source_.verify_key(low);
    if (head_at(n, order, i) == head_of(source_.key_of(low), prefix)) return;
    // Another key has taken the place of a lost entry; or another thread is changing the node, and its lock is seen
    // with any of its changes. relaxed: the link and the head were loaded with acquire, and a writer stores them after
    // its lock
    if (!node_word::locked(word) && n.lock.load(std::memory_order_relaxed) == word)
      space_.owner().raise_damaged(low, "the index leads to the entry of another key");
  };
  verify_pair(0);
  verify_pair(cut);
  const link before = n.low.load(std::memory_order_acquire);  // acquire: as low_of()
  const link low = low_of(to_at(n, order, cut), order.level());
  const link behind = n.high.load(std::memory_order_acquire);  // acquire: see node_lock.hpp
  for (const link bound : {before, behind}) {
    if (bound != null_link) source_.verify_key(bound);
  }
  const bool heads_change =
      prefix_between(before, low, prefix) != prefix || prefix_between(low, behind, prefix) != prefix;
  for (unsigned i = 0; heads_change && i < order.count(); ++i) verify_pair(i);
}

/// Recomputes the heads of all pairs.
void persistent_index::set_heads(index_node& n, const node_order& order) const noexcept {
  for (unsigned i = 0; i < order.count(); ++i) {
    const link low = low_of(to_at(n, order, i), order.level());
    const std::uint64_t head = low == null_link ? 0 : head_of(source_.key_of(low), order.prefix_length());
    n.pairs[order.slot(i)].head.store(head, std::memory_order_release);  // release: see node_lock.hpp
  }
}

/// Splits a full node that was read as `v`, or leaves it to another thread that was faster. `index`: where a pair is to
/// be added.
void persistent_index::split(view v, unsigned index) const {
  // before the lock, both: they may take long, and may throw
  verify_bounds(*v.at, cut_of(node_order(*v.at), index));
  taken_node fresh(space_, *this);
  if (!try_lock(v)) return;
  index_node& left = *v.at;
  index_node& right = *fresh;
  node_order kept(left);
  const unsigned cut = cut_of(kept, index);
  const link low = low_of(to_at(left, kept, cut), kept.level());
  const link high = left.high.load(std::memory_order_relaxed);  // relaxed, here and below: inside the lock

  // 1. The right node, which no other thread knows. A prefix needs two bounds; an existing one stays valid.
  node_order moved(kept.level(), prefix_between(low, high, high == null_link ? 0 : kept.prefix_length()));
  for (unsigned i = cut; i < kept.count(); ++i) {
    const unsigned slot = i - cut;
    right.pairs[slot].head.store(head_at(left, kept, i), std::memory_order_relaxed);
    right.pairs[slot].to.store(to_at(left, kept, i), std::memory_order_relaxed);
    moved.insert(slot, slot);
  }
  right.low.store(low, std::memory_order_relaxed);
  right.next.store(left.next.load(std::memory_order_relaxed), std::memory_order_relaxed);
  right.high.store(high, std::memory_order_relaxed);
  right.high_head.store(high == null_link ? 0 : head_of(source_.key_of(high), moved.prefix_length()),
                        std::memory_order_relaxed);
  for (unsigned i = 0; i < node_order::words; ++i) right.order[i].store(~std::uint64_t{0}, std::memory_order_relaxed);
  moved.store_in(right);
  if (moved.prefix_length() != kept.prefix_length()) set_heads(right, moved);
  right.lock.store(node_word::make(space_.epoch(), 0, false, check_of(right, space_.seed_of(fresh.where()))),
                   std::memory_order_relaxed);
  space_.flush(&right, sizeof right);

  // 2. If the left node's heads change too, its lock must be on the media before them: it says that they may be wrong.
  const unsigned prefix = prefix_between(left.low.load(std::memory_order_relaxed), low, kept.prefix_length());
  const bool heads_change = prefix != kept.prefix_length();
  if (heads_change) space_.flush(&left, format::cache_line_size);
  space_.fence();
  kept.cut(cut);
  kept.set_prefix_length(prefix);
  if (heads_change) {
    set_heads(left, kept);
    space_.flush(&left.pairs, sizeof left.pairs);
    space_.fence();
  }

  // 3. One line: it links the right node and ends the left one where the right one begins. It is durable before any
  //    thread can learn what the right node holds.
  left.next.store(fresh.where(), std::memory_order_release);  // release, here and below: see node_lock.hpp
  fresh.keep();
  left.high.store(low, std::memory_order_release);
  left.high_head.store(head_of(source_.key_of(low), prefix), std::memory_order_release);
  kept.store_in(left);
  space_.flush(&left, format::cache_line_size);
  space_.fence();
  unlock(left, v.ref);

  // 4. The level above. If a crash prevents this, searches take one more step.
  promote(fresh.where());
}

/// Ensures that the level above leads to `node`, which has a left neighbour.
void persistent_index::promote(link node) const {
  const index_node& n = space_.at(node);
  const unsigned above = node_order(n).level() + 1;
  const link low = n.low.load(std::memory_order_acquire);  // acquire: as low_of()
  source_.verify_key(low);                                 // its head will guide searches
  const std::string_view key = source_.key_of(low);
  for (;;) {
    while (node_order(*top().at).level() < above) raise_top(above);
    view parent = descend<side::right>(key, above, false);  // this descent promotes no other node
    node_order now(*parent.at);
    for (;; now = node_order(*parent.at)) {
      const bool beyond = is_beyond(*parent.at, now, key, side::right, true);
      if (!parent.validate()) {
        look_again(parent);
      } else if (!beyond) {
        break;
      } else if (!move_right(parent)) {
        look_again(parent);
      }
    }
    const unsigned child = child_for(*parent.at, now, key, side::right);
    const bool known = to_at(*parent.at, now, child) == node;
    if (!parent.validate()) continue;
    if (known) return;
    if (now.count() == index_pairs_max) {
      split(parent, child + 1);
      continue;
    }
    if (!try_lock(parent)) continue;
    add_pair(*parent.at, parent.ref, now, child + 1, head_of(key, now.prefix_length()), node);
    return;
  }
}

/// Adds a level `above` on top if there is none.
void persistent_index::raise_top(unsigned above) const {
  auto& durable = space_.anchor().top;
  std::uint64_t word = durable.load(std::memory_order_acquire);  // acquire: the node is complete
  const link old = space_.decode(word, space_.place_of(durable));
  if (node_order(space_.at(old)).level() >= above) {
    // Another thread has added the level and is about to say so in shared_->top; or it was killed before, perhaps
    // before it flushed the link. The link must be durable before pairs are put into nodes that only it leads to.
    space_.flush(&durable, sizeof durable);
    space_.fence();
    link known = shared_->top.load(std::memory_order_relaxed);
    if (node_order(space_.at(known)).level() < above)
      shared_->top.compare_exchange_strong(known, old, std::memory_order_release, std::memory_order_relaxed);
    return;
  }
  taken_node fresh(space_, *this);
  index_node& n = *fresh;
  node_order order(above, 0);
  n.pairs[0].head.store(0, std::memory_order_relaxed);  // relaxed, all: no other thread knows the node
  n.pairs[0].to.store(old, std::memory_order_relaxed);
  order.insert(0, 0);
  for (auto* field : {&n.next, &n.high_head, &n.high, &n.low}) field->store(0, std::memory_order_relaxed);
  for (unsigned i = 0; i < node_order::words; ++i) n.order[i].store(~std::uint64_t{0}, std::memory_order_relaxed);
  order.store_in(n);
  n.lock.store(node_word::make(space_.epoch(), 0, false, check_of(n, space_.seed_of(fresh.where()))),
               std::memory_order_relaxed);
  space_.flush(&n, sizeof n);
  space_.fence();
  // release: the node is complete
  if (!durable.compare_exchange_strong(word, space_.encode(fresh.where(), space_.place_of(durable)),
                                       std::memory_order_release, std::memory_order_relaxed))
    return;
  fresh.keep();
  space_.flush(&durable, sizeof durable);
  space_.fence();
  shared_->top.store(fresh.where(), std::memory_order_release);
}

}  // namespace icecore::index
